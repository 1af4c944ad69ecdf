//! The constants that the headers' bindings lack, compared with libc's.

use entresol_abi::args::*;

#[test]
fn constants_are_libcs() {
    let ours_and_libcs = [
        (CLOSE_RANGE_UNSHARE, libc::CLOSE_RANGE_UNSHARE as u64),
        (IPC_NOWAIT, libc::IPC_NOWAIT as u64),
        (IPC_STAT, libc::IPC_STAT as u64),
        (O_ASYNC, libc::O_ASYNC as u64),
        (PIDFD_THREAD, libc::O_EXCL as u64),
        (PROT_READ_WRITE, (libc::PROT_READ | libc::PROT_WRITE) as u64),
        (WALL, libc::__WALL as u64),
        (WNOTHREAD, libc::__WNOTHREAD as u64),
    ];
    for (ours, libcs) in ours_and_libcs {
        assert_eq!(ours, libcs);
    }
    assert_eq!(AT_FDCWD as i32, libc::AT_FDCWD);
}
