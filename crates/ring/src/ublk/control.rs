//! The control device.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::{BOTH, OUT, ioc};
use crate::runtime::explain;

/// Where the kernel takes commands about ublk devices; missing when it has no ublk.
pub const UBLK_CONTROL: &str = "/dev/ublk-control";

/// The size of `struct ublksrv_ctrl_cmd`.
const COMMAND_BYTES: u32 = 32;

/// Commands, as `UBLK_U_CMD_*`.
mod code {
    use super::{BOTH, COMMAND_BYTES, OUT, ioc};

    pub(super) const GET_DEV_INFO: u32 = ioc(OUT, 0x02, COMMAND_BYTES);
    pub(super) const ADD_DEV: u32 = ioc(BOTH, 0x04, COMMAND_BYTES);
    pub(super) const DEL_DEV: u32 = ioc(BOTH, 0x05, COMMAND_BYTES);
    pub(super) const START_DEV: u32 = ioc(BOTH, 0x06, COMMAND_BYTES);
    pub(super) const STOP_DEV: u32 = ioc(BOTH, 0x07, COMMAND_BYTES);
    pub(super) const SET_PARAMS: u32 = ioc(BOTH, 0x08, COMMAND_BYTES);
    pub(super) const GET_PARAMS: u32 = ioc(OUT, 0x09, COMMAND_BYTES);
    pub(super) const START_USER_RECOVERY: u32 = ioc(BOTH, 0x10, COMMAND_BYTES);
    pub(super) const END_USER_RECOVERY: u32 = ioc(BOTH, 0x11, COMMAND_BYTES);
    pub(super) const DEL_DEV_ASYNC: u32 = ioc(OUT, 0x14, COMMAND_BYTES);
    pub(super) const UPDATE_SIZE: u32 = ioc(BOTH, 0x15, COMMAND_BYTES);
}

/// How often a wait looks whether it still makes sense.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The number in a command that is about no device yet.
const ANY_DEVICE: u32 = u32::MAX;

/// Commands about ublk devices, one at a time. These calls block, so they are for threads that are
/// no core; starting and stopping a device even wait for requests that a core must answer.
pub struct UblkControl {
    /// Commands are larger than the entries of a core's ring.
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    device: fs::File,
    /// What the kernel reads and writes while a command is under way.
    scratch: Vec<u8>,
    /// Marks the completion of the last command: one that was given up may still complete.
    sent: u64,
}

impl std::fmt::Debug for UblkControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UblkControl").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl UblkControl {
    /// Opens the control device.
    ///
    /// # Errors
    /// `NotFound` when the kernel has no ublk, or not loaded it; `PermissionDenied` for users that are
    /// not root; those of io_uring.
    pub fn open() -> io::Result<UblkControl> {
        let device = fs::OpenOptions::new().read(true).write(true).open(UBLK_CONTROL)?;
        let ring =
            IoUring::builder().dontfork().build(4).map_err(|error: io::Error| explain(&error))?;
        Ok(UblkControl { ring, device, scratch: Vec::new(), sent: 0 })
    }

    /// Makes a device by `info`, a `struct ublksrv_ctrl_dev_info`, and fills in what came of it.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn add(&mut self, info: &mut [u8]) -> io::Result<()> {
        self.run(code::ADD_DEV, ANY_DEVICE, 0, info)
    }

    /// Fills `info`, a `struct ublksrv_ctrl_dev_info`, with that of the device `number`.
    ///
    /// # Errors
    /// `ENODEV` when there is none.
    pub fn info(&mut self, number: u32, info: &mut [u8]) -> io::Result<()> {
        self.run(code::GET_DEV_INFO, number, 0, info)
    }

    /// Sets how the device is to be, by `params`, a `struct ublk_params`.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn set_params(&mut self, number: u32, params: &mut [u8]) -> io::Result<()> {
        self.run(code::SET_PARAMS, number, 0, params)
    }

    /// Fills `params`, a `struct ublk_params` whose first four bytes say how long it is, with what the
    /// device was told to be.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn params(&mut self, number: u32, params: &mut [u8]) -> io::Result<()> {
        self.run(code::GET_PARAMS, number, 0, params)
    }

    /// Makes the block device, once each request of its queue was fetched; the kernel looks for
    /// partitions meanwhile. Gives up as soon as `go_on` says no.
    ///
    /// # Errors
    /// Those of the kernel; `TimedOut` when it was given up.
    pub fn start(&mut self, number: u32, go_on: impl Fn() -> bool) -> io::Result<()> {
        self.serve(code::START_DEV, number, go_on)
    }

    /// Begins to take over a device whose server was killed; its queue can be opened then.
    ///
    /// # Errors
    /// `EBUSY` while the kernel is not done with the end of that server, or when somebody serves it.
    pub fn begin_recovery(&mut self, number: u32) -> io::Result<()> {
        self.run(code::START_USER_RECOVERY, number, 0, &mut [])
    }

    /// Takes it over, once each request of its queue was fetched: what has waited comes now. Gives up
    /// as soon as `go_on` says no.
    ///
    /// # Errors
    /// Those of the kernel; `TimedOut` when it was given up.
    pub fn end_recovery(&mut self, number: u32, go_on: impl Fn() -> bool) -> io::Result<()> {
        self.serve(code::END_USER_RECOVERY, number, go_on)
    }

    /// Makes the block device as long as `sectors` of 512 bytes.
    ///
    /// # Errors
    /// Linux before 6.16 does not know this command.
    pub fn update_size(&mut self, number: u32, sectors: u64) -> io::Result<()> {
        self.run(code::UPDATE_SIZE, number, sectors, &mut [])
    }

    /// Has the kernel send its requests to this process.
    fn serve(&mut self, code: u32, number: u32, go_on: impl Fn() -> bool) -> io::Result<()> {
        self.send(code, number, u64::from(std::process::id()))?;
        while go_on() {
            if let Some(result) = self.wait(Some(LOOK_EVERY)) {
                return result;
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Writes back what the kernel caches of the block device, and takes it away; those who have it
    /// open get errors from then on.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn stop(&mut self, number: u32) -> io::Result<()> {
        self.run(code::STOP_DEV, number, 0, &mut [])
    }

    /// Deletes the device. Its number is free once nobody has any part of it open.
    ///
    /// # Errors
    /// `ENODEV` when there is none; Linux before 6.9 does not know this command.
    pub fn delete(&mut self, number: u32) -> io::Result<()> {
        self.run(code::DEL_DEV_ASYNC, number, 0, &mut [])
    }

    /// Like [`delete`](Self::delete), and waits until the number is free, or `go_on` says no.
    ///
    /// # Errors
    /// `ENODEV` when there is none; `TimedOut` when it was not waited for any longer.
    pub fn delete_and_wait(&mut self, number: u32, go_on: impl Fn() -> bool) -> io::Result<()> {
        self.send(code::DEL_DEV, number, 0)?;
        while go_on() {
            if let Some(result) = self.wait(Some(LOOK_EVERY)) {
                return result;
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Carries out a command that takes or fills `bytes`.
    fn run(&mut self, code: u32, number: u32, data: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.clone_into(&mut self.scratch);
        self.send(code, number, data)?;
        let result = loop {
            if let Some(result) = self.wait(None) {
                break result;
            }
        };
        bytes.copy_from_slice(&self.scratch);
        self.scratch.clear();
        result
    }

    /// Sends a command about what `scratch` holds. Whoever leaves that filled must wait.
    fn send(&mut self, code: u32, number: u32, data: u64) -> io::Result<()> {
        let len = u16::try_from(self.scratch.len()).expect("the structures are small");
        let address = if len == 0 { 0 } else { self.scratch.as_mut_ptr().expose_provenance() };
        self.sent += 1;
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), code)
            .cmd(encode(number, len, address as u64, data))
            .build()
            .user_data(self.sent);
        // SAFETY: the entry points to `scratch`, `len` bytes of the heap that are not touched until
        // `run` has seen the completion; a command without them may be given up.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::ResourceBusy)?;
        Ok(())
    }

    /// Submits what was sent and waits for its completion, at most for `limit`.
    fn wait(&mut self, limit: Option<Duration>) -> Option<io::Result<()>> {
        let waited = match limit {
            None => self.ring.submit_and_wait(1),
            Some(limit) => {
                let timespec = Timespec::from(limit);
                let args = SubmitArgs::new().timespec(&timespec);
                self.ring.submitter().submit_with_args(1, &args)
            }
        };
        if let Err(error) = waited {
            match error.raw_os_error() {
                Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => {}
                _ => {
                    // The kernel may still write to it.
                    std::mem::forget(std::mem::take(&mut self.scratch));
                    panic!("io_uring_enter failed, the ring is unusable: {error}");
                }
            }
        }
        let sent = self.sent;
        let completion = self.ring.completion().find(|entry| entry.user_data() == sent)?;
        let result = completion.result();
        Some(if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) })
    }
}

/// A `struct ublksrv_ctrl_cmd` in the space for commands of a large entry.
fn encode(number: u32, len: u16, address: u64, data: u64) -> [u8; 80] {
    const NO_QUEUE: u16 = u16::MAX;
    let mut command = [0; 80];
    command[0..4].copy_from_slice(&number.to_ne_bytes());
    command[4..6].copy_from_slice(&NO_QUEUE.to_ne_bytes());
    command[6..8].copy_from_slice(&len.to_ne_bytes());
    command[8..16].copy_from_slice(&address.to_ne_bytes());
    command[16..24].copy_from_slice(&data.to_ne_bytes());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_kernel() {
        // As a C compiler computes them from linux/ublk_cmd.h.
        assert_eq!(code::GET_DEV_INFO, 0x8020_7502);
        assert_eq!(code::ADD_DEV, 0xc020_7504);
        assert_eq!(code::DEL_DEV, 0xc020_7505);
        assert_eq!(code::START_DEV, 0xc020_7506);
        assert_eq!(code::STOP_DEV, 0xc020_7507);
        assert_eq!(code::SET_PARAMS, 0xc020_7508);
        assert_eq!(code::GET_PARAMS, 0x8020_7509);
        assert_eq!(code::START_USER_RECOVERY, 0xc020_7510);
        assert_eq!(code::END_USER_RECOVERY, 0xc020_7511);
        assert_eq!(code::DEL_DEV_ASYNC, 0x8020_7514);
        assert_eq!(code::UPDATE_SIZE, 0xc020_7515);
    }

    #[test]
    fn a_command_is_laid_out_as_the_kernel_reads_it() {
        let command = encode(7, 64, 0x1122_3344_5566_7788, 4711);
        assert_eq!(command[0..4], 7_u32.to_ne_bytes());
        assert_eq!(command[4..6], [0xff, 0xff]);
        assert_eq!(command[6..8], 64_u16.to_ne_bytes());
        assert_eq!(command[8..16], 0x1122_3344_5566_7788_u64.to_ne_bytes());
        assert_eq!(command[16..24], 4711_u64.to_ne_bytes());
        assert!(command[24..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_machine_without_ublk_says_so() {
        if fs::exists(UBLK_CONTROL).unwrap() {
            return;
        }
        assert_eq!(UblkControl::open().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
