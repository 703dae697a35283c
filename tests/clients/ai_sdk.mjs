// The Vercel AI SDK, which checks every chunk against its schema: streamText, generateText, generateObject.
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const openai = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.TOKEN });
const model = openai.chat("arco");

const messages = [{ role: "user", content: "My order is AB-1234." }];
const first = await generateText({ model, messages, maxRetries: 0 });
messages.push(...first.response.messages, { role: "user", content: "Which order?" });

const stream = streamText({ model, messages, maxRetries: 0 });
let streamed = "";
for await (const delta of stream.textStream) streamed += delta;

const made = await generateObject({
  model,
  schema: z.object({ name: z.string() }),
  prompt: "Say my name as an object.",
  maxRetries: 0,
});

const looked = [];
const helped = streamText({
  model,
  messages: [{ role: "user", content: "Please use look_up_order." }],
  tools: {
    look_up_order: tool({
      description: "The state of an order.",
      inputSchema: z.object({ order: z.string() }),
      execute: ({ order }) => looked.push(order) && `${order} was sent on 4 May`,
    }),
  },
  stopWhen: stepCountIs(3),
  maxRetries: 0,
});
let told = "";
for await (const delta of helped.textStream) told += delta;

console.log(
  JSON.stringify({
    first: first.text,
    streamed,
    finish: await stream.finishReason,
    tokens: (await stream.usage).totalTokens > 0,
    decision: (await stream.response).headers["x-chatmemory-conversation"],
    object: made.object,
    looked,
    told,
  }),
);
