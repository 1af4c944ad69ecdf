//! One system-call instruction and the bytes around it that a jump can take.

/// The instructions that share the replaced bytes with the `syscall`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `mov $number, %eax` directly before it: nearly every wrapper of a C library.
    Number,
    /// Other instructions before it.
    Before,
    /// Instructions after it, such as the comparison of the result; they move to the
    /// stub's tail.
    After,
    /// Instructions on both sides.
    Around,
}

/// A `syscall` that can be replaced by a jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// The first byte that is replaced.
    pub address: u64,
    /// Bytes of whole instructions replaced before the `syscall`.
    pub before: u8,
    /// Bytes of whole instructions replaced after it.
    pub after: u8,
    /// The form of these instructions.
    pub form: Form,
    /// No vector, mask or x87 register is read after this system call before it has been written, so their contents
    /// need not be kept.
    pub vectors_dead: bool,
    /// The number of the system call, where the code before it sets one constant.
    pub number: Option<u32>,
}

impl Site {
    /// How many bytes are replaced; at least 5.
    pub fn len(&self) -> usize {
        self.before as usize + SYSCALL_LEN + self.after as usize
    }

    /// Never: a site holds at least its `syscall`.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The address of the `syscall` instruction itself.
    pub fn syscall_at(&self) -> u64 {
        self.address + self.before as u64
    }

    /// The address behind the replaced bytes.
    pub fn end(&self) -> u64 {
        self.address + self.len() as u64
    }
}

/// The length of the `syscall` instruction in bytes: `0f 05`.
pub const SYSCALL_LEN: usize = 2;
/// `jmp rel32`.
pub(crate) const JUMP_LEN: usize = 5;
