//! Whether any vector register is read after a system call before it has been written.
//!
//! The kernel preserves vector registers across a system call, so compilers may keep
//! values in them. Where none does, a thread may be switched without saving them. This is
//! the textbook analysis of live variables, forwards from one point and with a bound.

use crate::code::{Code, Trust};
use crate::decode::{Flow, Instruction, Map, decode};
use crate::vector::{Registers, VectorUse, vector_use};

/// How many instructions are examined before the answer is "live".
const STEPS_MAX: usize = 2048;
/// Branch targets remembered before the answer is "live".
const BLOCKS_MAX: usize = 96;

/// A place in the code, and the registers that have been written on the way to it.
#[derive(Clone, Copy)]
struct Block {
    address: u64,
    written: Registers,
}

struct Walk {
    /// Targets that were reached; those from `done` on still have to be followed.
    blocks: [Block; BLOCKS_MAX],
    len: usize,
    done: usize,
}

/// The end of one path.
enum Path {
    Dead,
    Live,
}

/// True if it is proven that no path from `address` on depends on the contents of vector,
/// mask or x87 registers.
pub(crate) fn vectors_dead(code: &Code<'_>, trust: Trust, address: u64) -> bool {
    let mut walk = Walk { blocks: [Block { address, written: 0 }; BLOCKS_MAX], len: 1, done: 0 };
    let mut steps = STEPS_MAX;
    while walk.done < walk.len {
        let block = walk.blocks[walk.done];
        walk.done += 1;
        if let Path::Live = walk.follow(code, trust, block, &mut steps) {
            return false;
        }
    }
    true
}

impl Walk {
    /// Records a branch target, unless it was reached before with no more registers written; false if there is no
    /// room.
    fn reach(&mut self, address: u64, written: Registers) -> bool {
        let known = |block: &Block| block.address == address && block.written & !written == 0;
        if self.blocks[..self.len].iter().any(known) {
            return true;
        }
        if self.len == BLOCKS_MAX {
            return false;
        }
        self.blocks[self.len] = Block { address, written };
        self.len += 1;
        true
    }

    /// Follows the straight line that begins at `block`.
    fn follow(&mut self, code: &Code<'_>, trust: Trust, block: Block, steps: &mut usize) -> Path {
        let Block { mut address, mut written } = block;
        loop {
            let Some(bytes) = code.from(address) else { return Path::Live };
            let Some(i) = decode(bytes) else { return Path::Live };
            match vector_use(&i) {
                VectorUse::None => {}
                VectorUse::Xmm { reads, writes } if reads & !written == 0 => written |= writes,
                _ => return Path::Live,
            }
            if *steps == 0 {
                return Path::Live;
            }
            *steps -= 1;
            address += i.len() as u64;
            let beyond = if trust == Trust::LibC { Path::Dead } else { Path::Live };
            match i.flow(bytes) {
                Flow::Next | Flow::Syscall => {}
                Flow::Branch(by) => {
                    if !self.reach(address.wrapping_add_signed(by as i64), written) {
                        return Path::Live;
                    }
                }
                Flow::Jump(by) => {
                    let fits = self.reach(address.wrapping_add_signed(by as i64), written);
                    return if fits { Path::Dead } else { Path::Live };
                }
                Flow::Call(_) | Flow::CallIndirect | Flow::Return => return beyond,
                Flow::JumpIndirect if is_linkage(&i) => return beyond,
                Flow::Fault => return Path::Dead,
                Flow::JumpIndirect | Flow::Other => return Path::Live,
            }
        }
    }
}

/// `jmp *disp(%rip)`: an entry of the procedure linkage table, in effect a call.
fn is_linkage(i: &Instruction) -> bool {
    i.map == Map::Primary && i.rip_displacement != 0
}
