//! From a sample to the active functions: unwinding from copied registers and stack.
//!
//! Unwind tables where a file has them, else frame pointers. Beyond the end of the copied stack, the chain of frame
//! pointers that the image followed continues.

use std::collections::HashMap;
use std::rc::Rc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Unwinder};
use record::read::Sample;
use record::write::STACK_MAX;

use crate::modules::{Mapping, Module, mappings};

/// The most frames of a stack.
const FRAMES_MAX: usize = 512;

/// All files that were met, each read once.
#[derive(Default)]
pub struct Files(HashMap<String, Option<Rc<Module>>>);

impl Files {
    fn get(&mut self, path: &str) -> Option<Rc<Module>> {
        let load = || Module::load(path).map(Rc::new);
        self.0.entry(path.to_owned()).or_insert_with(load).clone()
    }
}

/// A place in a process: its file, and the address in the file's own terms.
#[derive(Clone)]
pub struct Spot {
    /// The file, if the place is in one.
    pub module: Option<Rc<Module>>,
    /// Where.
    pub address: u64,
}

/// A process's code, from one list of mappings to the next.
pub struct Space {
    unwinder: UnwinderX86_64<Rc<[u8]>>,
    cache: CacheX86_64,
    loaded: Vec<(Mapping, Rc<Module>, u64)>,
}

impl Default for Space {
    fn default() -> Space {
        Space { unwinder: UnwinderX86_64::new(), cache: CacheX86_64::new(), loaded: Vec::new() }
    }
}

impl Space {
    /// The process has this code from now on.
    pub fn replace(&mut self, maps: &str, files: &mut Files) {
        *self = Space::default();
        for mapping in mappings(maps) {
            let Some(module) = files.get(&mapping.path) else { continue };
            let Some(address) = module.address_of(mapping.offset) else { continue };
            let base = mapping.range.start.wrapping_sub(address);
            let sections = module.sections.clone();
            let named = framehop::Module::new(mapping.path.clone(), mapping.range.clone(), base, sections);
            self.unwinder.add_module(named);
            self.loaded.push((mapping, module, base));
        }
    }

    /// Where a sampled thread was, innermost first.
    pub fn unwind(&mut self, sample: &Sample<'_>) -> Vec<Spot> {
        let bottom = sample.place.rsp & !7;
        let mut read = |at: u64| {
            let index = at.checked_sub(bottom).filter(|offset| offset.is_multiple_of(8)).ok_or(())? / 8;
            sample.stack.get(index as usize).copied().ok_or(())
        };
        let place = sample.place;
        let mut registers = UnwindRegsX86_64::new(place.rip, place.rsp, place.rbp);
        let mut at = FrameAddress::from_instruction_pointer(place.rip);
        let mut addresses = Vec::new();
        let whole = loop {
            if addresses.len() == FRAMES_MAX {
                break true;
            }
            addresses.push(at.address_for_lookup());
            let back = self.unwinder.unwind_frame(at, &mut registers, &mut self.cache, &mut read);
            let back = match back {
                // Code without tables is taken for a function without a frame while it is the innermost. If that leads
                // nowhere, it has one.
                Ok(Some(back)) if addresses.len() == 1 && !self.is_code(back) && self.is_code(place.rip) => {
                    registers = UnwindRegsX86_64::new(place.rip, place.rsp, place.rbp);
                    by_frame_pointer(&mut registers, &mut read).or(Some(back))
                }
                Ok(back) => back,
                Err(_) => break false,
            };
            match back.and_then(FrameAddress::from_return_address) {
                Some(back) => at = back,
                None => break true,
            }
        };
        if !whole && sample.stack.len() * 8 == STACK_MAX {
            let end = bottom + STACK_MAX as u64;
            let above = sample.frames.iter().filter(|[frame, _]| *frame >= end).map(|[_, back]| back - 1);
            addresses.extend(above.take(FRAMES_MAX - addresses.len()));
        }
        addresses.into_iter().map(|address| self.spot(address)).collect()
    }

    fn is_code(&self, address: u64) -> bool {
        self.loaded.iter().any(|(mapping, ..)| mapping.range.contains(&address))
    }

    fn spot(&self, address: u64) -> Spot {
        match self.loaded.iter().find(|(mapping, ..)| mapping.range.contains(&address)) {
            Some((_, module, base)) => Spot { module: Some(module.clone()), address: address.wrapping_sub(*base) },
            None => Spot { module: None, address },
        }
    }
}

/// Goes to the caller by the frame pointer: the return address.
fn by_frame_pointer(registers: &mut UnwindRegsX86_64, read: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
    let frame = registers.bp();
    let (next, back) = (read(frame).ok()?, read(frame.checked_add(8)?).ok()?);
    *registers = UnwindRegsX86_64::new(back, frame.checked_add(16)?, next);
    Some(back)
}
