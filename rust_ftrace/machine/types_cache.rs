// SPDX-License-Identifier: GPL-2.0

//! Types that one reader has asked for, so that it does not ask for each function.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::btf::{BtfBytes, KernelBtf};
use super::Machine;
use crate::engine::btf::KnownTypes;

/// The types that one reader has asked for.
#[derive(Default)]
pub(crate) struct TypesCache {
    kernel: Option<Option<Arc<KernelBtf>>>,
    /// The module that was asked for last, and its types.
    last: Option<(KVec<u8>, Option<Arc<KernelBtf>>)>,
    /// There was no memory, and it is not tried again.
    has_failed: bool,
}

impl TypesCache {
    /// Forgets what may be another's.
    pub(crate) fn forget_passing(&mut self) {
        self.last = None;
        self.has_failed = false;
    }

    /// Returns the types of functions of `module`, or of the kernel's own; `None` if there are
    /// none.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and from then on.
    pub(crate) fn find(
        &mut self,
        machine: &Machine,
        module: Option<&[u8]>,
    ) -> Result<Option<KnownTypes<'_, BtfBytes>>> {
        let result = match self.has_failed {
            true => Err(ENOMEM),
            false => self.read(machine, module),
        };
        self.has_failed = result.is_err();
        result?;
        let Some(Some(base)) = &self.kernel else {
            return Ok(None);
        };
        let own = match (module, &self.last) {
            (None, _) => return Ok(Some(base.alone())),
            (Some(_), Some((_, own))) => own.as_ref(),
            (Some(_), None) => None,
        };
        Ok(own.and_then(|own| own.after(base)))
    }

    /// Asks for what is not there yet.
    fn read(&mut self, machine: &Machine, module: Option<&[u8]>) -> Result {
        if self.kernel.is_none() {
            self.kernel = Some(machine.btf()?);
        }
        let Some(module) = module else {
            return Ok(());
        };
        let is_last = (self.last.as_ref()).is_some_and(|(last, _)| **last == *module);
        if !is_last {
            let mut name = KVec::new();
            name.extend_from_slice(module, GFP_KERNEL)?;
            self.last = Some((name, machine.module_btf(module)?));
        }
        Ok(())
    }
}
