// The official SDK for Node: whole, streamed, a conversation, errors, the list of models. Prints what it saw as JSON.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.TOKEN, maxRetries: 0 });
const messages = [{ role: "user", content: "My order is AB-1234." }];
const first = await client.chat.completions.create({ model: "arco", messages }).withResponse();
messages.push(first.data.choices[0].message, { role: "user", content: "Which order?" });

let streamed = "";
let usage = null;
const stream = await client.chat.completions
  .create({ model: "arco", messages, stream: true, stream_options: { include_usage: true } })
  .withResponse();
for await (const chunk of stream.data) {
  streamed += chunk.choices[0]?.delta.content ?? "";
  usage = chunk.usage ?? usage;
}

const helper = client.chat.completions.stream({ model: "arco", messages: [{ role: "user", content: "Hello" }] });
const final = await helper.finalChatCompletion();

const looked = [];
const runner = client.chat.completions.runTools({
  model: "arco",
  stream: true,
  messages: [{ role: "user", content: "Please use look_up_order." }],
  tools: [
    {
      type: "function",
      function: {
        name: "look_up_order",
        description: "The state of an order.",
        parameters: { type: "object", properties: { order: { type: "string" } }, required: ["order"] },
        parse: JSON.parse,
        function: ({ order }) => looked.push(order) && `${order} was sent on 4 May`,
      },
    },
  ],
});
const told = await runner.finalContent();

let error = null;
try {
  await client.chat.completions.create({ model: "none", messages });
} catch (caught) {
  error = { name: caught.constructor.name, code: caught.code, status: caught.status };
}
const models = [];
for await (const model of client.models.list()) models.push(model.id);

console.log(
  JSON.stringify({
    first: first.data.choices[0].message.content,
    decisions: [first, stream].map((one) => one.response.headers.get("x-chatmemory-conversation")),
    streamed,
    usage: usage.total_tokens > 0,
    final: final.choices[0].message.content,
    looked,
    told,
    error,
    models,
  }),
);
