// Server-sent events, read from a response that comes in pieces. Knows the format, and nothing of what the events mean.

/** The events, one by one: {name, data, id}. Bytes may be cut within a letter, and lines anywhere. */
export async function* eventsOf(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let [rest, name, id, data] = ["", "", "", []];
  try {
    for (let piece; !(piece = await reader.read()).done; ) {
      rest += decoder.decode(piece.value, { stream: true });
      const lines = rest.split(/\r\n|\n|\r(?!$)/); // of the last letter, the line feed may be in the next piece
      rest = lines.pop();
      for (const line of lines) {
        const [, field, value] = /^([^:]*):? ?([^]*)$/.exec(line);
        if (field === "event") name = value;
        else if (field === "data") data.push(value);
        else if (field === "id" && !value.includes("\0")) id = value;
        if (line) continue;
        if (data.length) yield { name: name || "message", data: data.join("\n"), id };
        [name, data] = ["", []];
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
