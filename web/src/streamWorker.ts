// One stream for all tabs: over HTTP/1.1 a browser has only six connections to a server, too few for a stream per tab.

import { type Address, follow, type Standing } from "./stream";

const ports = new Set<MessagePort>();
let standing: Standing | null = null;
let following = false;

/** A tab joins by sending the address, and leaves by sending null. */
addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0]!;
  port.onmessage = ({ data }: MessageEvent<Address | null>) => {
    if (data === null) {
      ports.delete(port);
      return;
    }
    ports.add(port);
    if (standing) port.postMessage({ standing });
    if (following) return;
    following = true;
    follow(data, (told) => {
      standing = told.standing ?? standing;
      for (const each of ports) each.postMessage(told);
    });
  };
});
