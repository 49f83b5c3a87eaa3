//! What the front asks for: the broker, and in tests what answers as one is to be seen answering.

use super::answer::Handing;
use super::budget::Hold;
use crate::api::{
    Consumer, Declared, Deleted, Delivered, Explained, Fault, NewMessage, Paused, PublishAnswer,
    Purged, QueueSettings, QueueSummary, QueueView, Receive, Settled, StoredMessage, Verb, Why,
};
use crate::broker::{Broker, BrokerStats, Received};
use crate::name::QueueName;
use plimsoll::Node;

/// What a receive gets; see [`Received`].
pub(super) struct Got {
    pub(super) messages: Vec<Delivered>,
    pub(super) why: Option<Why>,
    pub(super) hand_off: Box<dyn Handing>,
}

/// See [`Broker`], whose calls these are.
pub(super) trait Backend: Clone + Send + Sync + 'static {
    fn nodes(&self) -> &[Node];
    fn stats(&self) -> BrokerStats;
    fn list(&self, after: Option<&str>, max: usize) -> Vec<QueueSummary>;
    fn declare(
        &self,
        name: &QueueName,
        settings: QueueSettings,
        if_match: Option<u64>,
    ) -> impl Future<Output = Result<Declared, Fault>> + Send;
    fn delete(
        &self,
        name: &QueueName,
        if_match: Option<u64>,
    ) -> impl Future<Output = Result<Deleted, Fault>> + Send;
    fn show(&self, name: &QueueName) -> impl Future<Output = Result<QueueView, Fault>> + Send;
    fn publish(
        &self,
        name: &QueueName,
        messages: Vec<NewMessage>,
        hold: Hold,
    ) -> impl Future<Output = Result<Vec<PublishAnswer>, Fault>> + Send;
    fn receive(
        &self,
        name: &QueueName,
        ask: Receive,
    ) -> impl Future<Output = Result<Got, Fault>> + Send;
    fn settle(
        &self,
        name: &QueueName,
        verb: Verb,
        receipts: Vec<String>,
    ) -> impl Future<Output = Result<Vec<Settled>, Fault>> + Send;
    fn peek(
        &self,
        name: &QueueName,
        max: usize,
    ) -> impl Future<Output = Result<Vec<StoredMessage>, Fault>> + Send;
    fn purge(
        &self,
        name: &QueueName,
        dead: bool,
    ) -> impl Future<Output = Result<Purged, Fault>> + Send;
    fn pause(
        &self,
        name: &QueueName,
        paused: bool,
    ) -> impl Future<Output = Result<Paused, Fault>> + Send;
    fn explain(&self, name: &QueueName) -> impl Future<Output = Result<Explained, Fault>> + Send;
    fn consumers(
        &self,
        name: &QueueName,
    ) -> impl Future<Output = Result<Vec<Consumer>, Fault>> + Send;
}

impl Backend for Broker {
    fn nodes(&self) -> &[Node] {
        Self::nodes(self)
    }

    fn stats(&self) -> BrokerStats {
        Self::stats(self)
    }

    fn list(&self, after: Option<&str>, max: usize) -> Vec<QueueSummary> {
        Self::list(self, after, max)
    }

    async fn declare(
        &self,
        name: &QueueName,
        settings: QueueSettings,
        if_match: Option<u64>,
    ) -> Result<Declared, Fault> {
        Self::declare(self, name, settings, if_match).await
    }

    async fn delete(&self, name: &QueueName, if_match: Option<u64>) -> Result<Deleted, Fault> {
        Self::delete(self, name, if_match).await
    }

    async fn show(&self, name: &QueueName) -> Result<QueueView, Fault> {
        Self::show(self, name).await
    }

    async fn publish(
        &self,
        name: &QueueName,
        messages: Vec<NewMessage>,
        hold: Hold,
    ) -> Result<Vec<PublishAnswer>, Fault> {
        self.publish_held(name, messages, Some(Box::new(hold))).await
    }

    async fn receive(&self, name: &QueueName, ask: Receive) -> Result<Got, Fault> {
        let Received { messages, why, hand_off } = Self::receive(self, name, ask).await?;
        Ok(Got { messages, why, hand_off: Box::new(hand_off) })
    }

    async fn settle(
        &self,
        name: &QueueName,
        verb: Verb,
        receipts: Vec<String>,
    ) -> Result<Vec<Settled>, Fault> {
        Self::settle(self, name, verb, receipts).await
    }

    async fn peek(&self, name: &QueueName, max: usize) -> Result<Vec<StoredMessage>, Fault> {
        Self::peek(self, name, max).await
    }

    async fn purge(&self, name: &QueueName, dead: bool) -> Result<Purged, Fault> {
        Self::purge(self, name, dead).await
    }

    async fn pause(&self, name: &QueueName, paused: bool) -> Result<Paused, Fault> {
        Self::pause(self, name, paused).await
    }

    async fn explain(&self, name: &QueueName) -> Result<Explained, Fault> {
        Self::explain(self, name).await
    }

    async fn consumers(&self, name: &QueueName) -> Result<Vec<Consumer>, Fault> {
        Self::consumers(self, name).await
    }
}
