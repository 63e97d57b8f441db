import { render } from "preact";
import { App } from "./app";
import { listen } from "./live";
import "./style.css";

listen();
render(<App />, document.getElementById("page")!);
