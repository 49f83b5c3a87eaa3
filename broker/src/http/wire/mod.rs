//! What is read and written as JSON.

pub(super) mod ask;
mod give;
pub(super) mod message;

pub(super) use ask::{ExtendAsk, PurgeAsk, ReceiveAsk, SettleAsk};
pub(super) use give::{
    AttentionGive, ConsumersGive, DeclaredGive, ExplainedGive, LinesGive, QueueGive, QueuesGive,
    ReceivedGive, ResultGive, ResultsGive, StoredGive, millis,
};
pub(super) use message::{LineIn, MessageOut, MessagesGive, headers_from_json, lines};
