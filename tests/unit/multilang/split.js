// A bolt of Storm's multilang protocol in Node: splits lines into words.
let text = "";
let ids = 0;

function send(message) {
  process.stdout.write(JSON.stringify(message) + "\nend\n");
}

function receive(message) {
  if (message.pidDir) {
    require("fs").closeSync(require("fs").openSync(message.pidDir + "/" + process.pid, "w"));
    send({ pid: process.pid });
  } else if (Array.isArray(message)) {
    ids += message.length; // the tasks that received a tuple
  } else if (message.stream === "__heartbeat") {
    send({ command: "sync" });
  } else {
    for (const word of message.tuple[0].split(" ")) {
      send({ command: "emit", tuple: [word], anchors: [message.id] });
    }
    send({ command: "log", msg: "split " + message.tuple[0], level: 2 });
    send({ command: "ack", id: message.id });
  }
}

process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => {
  const parts = (text + chunk).split("\nend\n");
  text = parts.pop();
  parts.forEach((part) => receive(JSON.parse(part)));
});
process.stdin.on("end", () => process.exit(0));
