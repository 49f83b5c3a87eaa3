//! Who may append now. A permit is made only here and consumed by `append`, so no write goes round admission.
//!
//! At present the gate admits everything; classes, refusals and permits have their final shape.

use crate::clock::Clock;
use crate::permit::{Decision, Gate, PERMIT_LIFE, Permit};
use crate::types::WriteClass;
use std::sync::Arc;
use std::time::Duration;

/// The gate of one node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admission {
    clock: Arc<dyn Clock>,
}

impl Admission {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }
}

impl Gate for Admission {
    fn decide(&self, class: WriteClass, bytes: u64) -> Decision {
        let now = self.clock.elapsed();
        Decision::Admit(Permit::new(class, bytes, now, now + PERMIT_LIFE))
    }

    fn wait(&self, delay: Duration) {
        self.clock.sleep(delay);
    }
}
