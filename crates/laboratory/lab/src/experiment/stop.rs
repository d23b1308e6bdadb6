//! A signal during a run: the reading under way is given up, and the record says that the run can
//! be taken up again.

use load::run::Stopper;

use crate::interrupt::Interrupt;
use crate::measurement::missed::Halt;

impl Halt for Interrupt {
    fn is_asked(&self) -> bool {
        self.is_heard()
    }

    fn watch(&self, stopper: Stopper) {
        Self::watch(self, stopper);
    }
}
