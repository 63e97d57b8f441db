# The example of mindspore.SummaryCollector, with its import changed, and without amp_level="O2", which a CPU lacks.
import mindspore as ms
from mindspore import nn
from mindspore.train import Accuracy, Model
from stand_ins import LeNet5, create_dataset  # type: ignore[import-not-found]

from lineage_store.collect import SummaryCollector

if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE)
    ds_train = create_dataset()
    network = LeNet5(10)
    net_loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    net_opt = nn.Momentum(network.trainable_params(), 0.01, 0.9)
    model = Model(network, net_loss, net_opt, metrics={"Accuracy": Accuracy()})

    # Simple usage:
    summary_collector = SummaryCollector(summary_dir="./summary_dir")
    model.train(1, ds_train, callbacks=[summary_collector], dataset_sink_mode=False)

    # Do not collect metric and collect the first layer parameter, others are collected by default
    specified = {"collect_metric": False, "histogram_regular": "^conv1.*"}
    summary_collector = SummaryCollector(summary_dir="./summary_dir", collect_specified_data=specified)
    model.train(1, ds_train, callbacks=[summary_collector], dataset_sink_mode=False)
