// SPDX-License-Identifier: GPL-2.0

//! `dump_on_oops`: whose trace goes to the console when the machine dies.

use core::fmt::Write;

use kernel::prelude::*;
use kernel::sync::Arc;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use super::dying;
use crate::engine::dump_on_oops::{write_named, DumpError, DumpMode, DumpWords};
use crate::engine::text::Text;
use crate::instance::{DumpAtDeath, Instance, Instances};

/// The file's name, in the error log.
const FILE: &str = "dump_on_oops";

/// `dump_on_oops`, of one instance; that of the top directory can name others.
pub(super) struct DumpOnOops;

impl Attribute for DumpOnOops {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let own = context.instance.dump().mode().number();
        write!(text, "{own}").map_err(no_memory)?;
        if let Some(instances) = &context.instances {
            for instance in &instances.all()? {
                let name = instance.name().to_str()?;
                let mode = match name.is_empty() {
                    true => DumpMode::Off,
                    false => instance.dump().mode(),
                };
                write_named(text, name, mode).map_err(no_memory)?;
            }
        }
        text.write_str("\n").map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        let refuse = |error: DumpError<'_>| {
            let (reason, part) = error.explain();
            context.instance.errors().log(FILE, reason, part);
            EINVAL
        };
        let Some(instances) = &context.instances else {
            let mode = DumpMode::parse(value).map_err(refuse)?;
            let prepared = DumpAtDeath::prepare(&context.instance, mode, dying::dump);
            let prepared = prepared.inspect_err(|_| context.instance.dump().forget())?;
            context.instance.dump().commit(prepared);
            return Ok(());
        };
        let words = DumpWords::parse(value).map_err(refuse)?;
        set_all(instances, words, |name| {
            let errors = context.instance.errors();
            errors.log(FILE, "No such instance", name);
        })
    }
}

/// Sets the modes of all instances; those that are not named show nothing. Calls `unknown` with a
/// name that no instance has.
fn set_all(instances: &Instances, words: DumpWords<'_>, unknown: impl Fn(&[u8])) -> Result {
    let all = instances.all()?;
    let is_there = |name: &[u8]| (all.iter()).any(|instance| instance.name().to_bytes() == name);
    if let Some((name, _)) = words.named().find(|(name, _)| !is_there(name)) {
        unknown(name);
        return Err(EINVAL);
    }
    let mut prepared = KVec::with_capacity(all.len(), GFP_KERNEL)?;
    let mut prepare = || {
        all.iter().try_for_each(|instance| {
            let mode = mode_of(instance, words);
            prepared.push(
                DumpAtDeath::prepare(instance, mode, dying::dump)?,
                GFP_KERNEL,
            )?;
            Ok(())
        })
    };
    if let Err(error) = prepare() {
        all.iter().for_each(|instance| instance.dump().forget());
        return Err(error);
    }
    for (instance, prepared) in all.iter().zip(prepared) {
        instance.dump().commit(prepared);
    }
    Ok(())
}

fn mode_of(instance: &Arc<Instance>, words: DumpWords<'_>) -> DumpMode {
    match instance.name().to_bytes() {
        b"" => words.top,
        name => words.mode_of(name),
    }
}
