// Server-sent events, read from text that comes in pieces. Knows the format, and nothing of what the events mean.

export class EventParser {
  #rest = "";
  #name = "";
  #data = [];
  #id = "";

  /** Takes the next piece, wherever it was cut; gives the events that are whole by now: {name, data, id}. */
  push(piece) {
    this.#rest += piece;
    const found = [];
    let start = 0;
    const end = /\r\n|\n|\r/g;
    for (let cut; (cut = end.exec(this.#rest)); start = end.lastIndex) {
      if (cut[0] === "\r" && end.lastIndex === this.#rest.length) break; // its line feed may be in the next piece
      const event = this.#line(this.#rest.slice(start, cut.index));
      if (event) found.push(event);
    }
    this.#rest = this.#rest.slice(start);
    return found;
  }

  #line(line) {
    if (!line) return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return null; // a comment
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return null;
  }

  #dispatch() {
    const event = this.#data.length ? { name: this.#name || "message", data: this.#data.join("\n"), id: this.#id } : null;
    this.#name = "";
    this.#data = [];
    return event;
  }
}

/** The events of a response, one by one. Bytes may be cut within a letter. */
export async function* eventsOf(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  try {
    for (let piece; !(piece = await reader.read()).done; )
      yield* parser.push(decoder.decode(piece.value, { stream: true }));
  } finally {
    reader.cancel().catch(() => {});
  }
}
