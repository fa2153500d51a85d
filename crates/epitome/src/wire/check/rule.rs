//! The rules of each dialect, declared once: name, severity, how far they can be judged, and the sentence people read.
//!
//! A rule here is a fact about providers, not a preference of ours. This file judges nothing; the files named after
//! the dialects do.

use std::fmt;

use crate::wire::Dialect;

/// What breaking a rule costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The dialect's own provider answers 400.
    Error,
    /// Some back-end behind the dialect refuses it, or the request alone cannot prove that the provider does.
    Advice,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Advice => "advice",
        })
    }
}

/// How much of a rule a request alone can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// All of it.
    Whole,
    /// Some of it; the text says what is judged.
    Part(&'static str),
    /// None of it, so it is never reported; the text says why.
    Nothing(&'static str),
}

use Reach::{Nothing, Part, Whole};

macro_rules! rules {
    ($($dialect:ident { $($rule:ident $severity:ident $reach:expr, $summary:literal;)* })*) => {
        /// A rule that a request of a dialect must keep.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[doc = $summary] $rule,)*)*
        }

        impl Rule {
            /// Every rule, in the order in which they are listed to people.
            pub const ALL: &'static [Rule] = &[$($(Rule::$rule,)*)*];

            /// The rule's short name, such as `C1`.
            pub fn name(self) -> &'static str {
                match self { $($(Rule::$rule => stringify!($rule),)*)* }
            }

            /// The rule in one sentence.
            pub fn summary(self) -> &'static str {
                match self { $($(Rule::$rule => $summary,)*)* }
            }

            /// What breaking the rule costs.
            pub fn severity(self) -> Severity {
                match self { $($(Rule::$rule => Severity::$severity,)*)* }
            }

            /// How much of the rule a request alone can decide.
            pub fn reach(self) -> Reach {
                match self { $($(Rule::$rule => $reach,)*)* }
            }

            /// The dialect whose rule it is.
            pub fn dialect(self) -> Dialect {
                match self { $($(Rule::$rule)|* => Dialect::$dialect,)* }
            }
        }
    };
}

rules! {
    Chat {
        C1 Error Whole, "Every tool call is answered by the tool messages directly after its assistant message.";
        C2 Error Whole, "Every tool message answers, once, a call of the assistant message before it.";
        C3 Error Whole, "The message list, roles, contents, parts and call lists have the shape the schema asks for.";
        C4 Error Whole, "An assistant message has content or calls.";
        C5 Error Whole, "The arguments of a function call are a string that holds a JSON object.";
        C6 Advice Part("judged when the request names a Mistral model"),
            "Mistral wants call ids of nine letters or digits, no user directly after a tool, and a last user or tool message.";
        C7 Advice Whole, "Chat templates want one system message, first, then user and assistant in alternation.";
        C8 Advice Part("judged when a whole request is given"),
            "Translators to Anthropic and Bedrock want `tools` declared when the messages hold calls or results.";
        C9 Error Whole, "Images, audio and files stand in user messages only.";
    }
    Responses {
        R1 Error Part("not judged when an item_reference may stand for the output"),
            "Every call item has an output item of its own kind with the same call_id.";
        R2 Error Part("not judged when earlier items are held by the server"),
            "Every output item answers, once, a call item with the same call_id.";
        R3 Error Whole, "A reasoning item is directly followed by what the model made of it: reasoning, a message or a call.";
        R4 Advice Part("which reasoning an item had is only known to the server; judged when a stored request that reasons holds an item with a server id and no reasoning before it"),
            "A call or message with a server id keeps the reasoning item that came before it.";
        R5 Error Part("judged when the request says `store: false`"),
            "Without a store no item is known by id alone: reasoning carries encrypted_content, and nothing is referenced.";
        R6 Error Whole, "An output item comes after its call item.";
        R7 Error Whole, "Items have the shape the schema asks for, and only messages have a role.";
        R8 Error Nothing("which model and organization sealed the content is not written in the request"),
            "Encrypted content is only sent to the model and organization that sealed it.";
        R9 Error Whole, "A compaction_trigger is the last item.";
        R10 Error Whole, "No two items have the same id.";
    }
    Anthropic {
        A1 Error Whole, "Every tool_use is answered by a tool_result in the next message.";
        A2 Error Whole, "Every tool_result answers a tool_use of the message before it, every server result a server call before it.";
        A3 Error Whole, "Tool results come first in a user message, everything else after them.";
        A4 Error Whole, "The first message is the user's, or a compaction.";
        A5 Error Whole, "Messages, blocks and texts have the shape the schema asks for and are not empty.";
        A6 Error Part("judged when `thinking.type` is `enabled`; adaptive thinking does not ask for it"),
            "With thinking enabled, an open tool loop starts with a thinking block.";
        A7 Error Part("judged when `thinking.type` is `disabled`"),
            "With thinking disabled, a final assistant message holds no thinking block.";
        A8 Error Part("whether a block still has its original bytes is only known with the original; judged are missing contents and blocks outside an assistant message"),
            "Thinking blocks are sent back as they came, in the assistant's message.";
        A9 Error Part("whether a signature verifies is only known to the provider; judged are missing and empty ones"),
            "Every thinking block carries its signature.";
        A10 Error Nothing("the prefix that a signature is bound to is not written in the request"),
            "On models that bind thinking, everything before a thinking block is what it was when the block was made.";
        A11 Error Part("judged when a whole request is given"),
            "`tools` is declared when the messages hold tool_use or tool_result blocks.";
        A12 Error Whole, "Call ids are made of letters, digits, `_` and `-`, and so are tool names, of 1 to 128 characters.";
        A13 Error Part("not judged on an open tail; that newer models take no prefill at all is not judged"),
            "A final assistant message does not end in whitespace.";
        A14 Error Whole, "At most 4 cache marks, none on thinking, longer-lived ones first; at most 100 000 messages and 32 MB.";
        A15 Error Nothing("the beta headers are not part of the request body"),
            "A beta field is sent together with its beta header.";
        A16 Error Whole, "Call ids are unique, and each has one result.";
    }
    AiSdk {
        S1 Error Whole, "Every tool-call is answered, or its approval is, in the tool messages directly after it.";
        S2 Error Whole, "Every tool-result answers a tool-call of the assistant messages before it.";
        S3 Error Whole, "Messages have a role of system, user, assistant or tool, and contents and parts the schema's shape.";
        S4 Error Whole, "No message is empty.";
        S5 Error Whole, "The tool-call ids of an exchange are unique, and each has one result.";
        S6 Error Whole, "Calls, reasoning and approval requests stand in assistant messages, answers in tool messages.";
        S7 Advice Whole, "System messages come before all others.";
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
