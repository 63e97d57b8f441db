import { render } from "preact";
import { App } from "./app";
import { listen } from "./live";
import "./style.css";

render(<App />, document.getElementById("page")!);
listen();
