// The Vercel AI SDK with its default model, which is that of the Responses API: 20 turns, with a call of a tool in each.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const openai = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.TOKEN });
const looked = [];
const tools = {
  look_up_order: tool({
    description: "The state of an order.",
    inputSchema: z.object({ order: z.string() }),
    execute: ({ order }) => looked.push(order) && `${order} was sent on 4 May. ${"It has not arrived. ".repeat(60)}`,
  }),
};

const messages = [];
const said = [];
for (let number = 1; number <= 20; number++) {
  messages.push({ role: "user", content: `Order ${number} is AB-${1000 + number}. Where is it?` });
  const { text, response } = await generateText({
    model: openai("arco"),
    messages,
    tools,
    stopWhen: stepCountIs(3),
    maxRetries: 0,
  });
  messages.push(...response.messages);
  said.push(text);
}
console.log(JSON.stringify({ looked, said }));
