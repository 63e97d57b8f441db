# The examples of MindInsight's TrainLineage and EvalLineage, with their imports changed. `model.eval(epoch_num, …)` of
# the second is MindSpore's own call of then, which no longer exists.
from mindspore import nn
from mindspore.train import Accuracy, Model, ModelCheckpoint
from stand_ins import LeNet5, create_dataset  # type: ignore[import-not-found]

from lineage_store.collect import EvalLineage, SummaryRecord, SummaryStep, TrainLineage

if __name__ == "__main__":
    epoch_num = 1
    network = LeNet5()
    dataset = create_dataset()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), 0.01, 0.9)

    model = Model(network, loss, optimizer, metrics={"Accuracy": Accuracy()})
    model_ckpt = ModelCheckpoint(directory="./model")
    summary_writer = SummaryRecord(log_dir="./summary_dir")
    summary_callback = SummaryStep(summary_writer, flush_step=2)
    lineagemgr = TrainLineage(summary_record=summary_writer)
    model.train(epoch_num, dataset, callbacks=[model_ckpt, summary_callback, lineagemgr])

    eval_callback = EvalLineage(summary_record=summary_writer)
    model.eval(create_dataset(), callbacks=[summary_callback, eval_callback])
