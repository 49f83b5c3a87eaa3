//! One thing for each size class.

use crate::types::SizeClass;

/// One value for each size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByClass<T> {
    pub(crate) tiny: T,
    pub(crate) small: T,
    pub(crate) main: T,
}

impl<T> ByClass<T> {
    pub(crate) fn of(&self, class: SizeClass) -> &T {
        match class {
            SizeClass::Tiny => &self.tiny,
            SizeClass::Small => &self.small,
            SizeClass::Main => &self.main,
        }
    }

    pub(crate) fn of_mut(&mut self, class: SizeClass) -> &mut T {
        match class {
            SizeClass::Tiny => &mut self.tiny,
            SizeClass::Small => &mut self.small,
            SizeClass::Main => &mut self.main,
        }
    }

    /// The same of what `of` gives for each class.
    pub(crate) fn each<U>(&self, mut of: impl FnMut(&T) -> U) -> ByClass<U> {
        ByClass { tiny: of(&self.tiny), small: of(&self.small), main: of(&self.main) }
    }
}
