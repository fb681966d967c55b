//! Reading with the kernel's receive time stamps.
//!
//! The kernel stamps a packet with the wall clock when it takes it from the network device. The map
//! to the monotonic clock is a pair of readings, renewed often enough that neither the drift between
//! the clocks nor a step of the wall clock stays in the figures for long.

use std::io;
use std::os::fd::OwnedFd;

use plimsoll_core::{Span, Timestamp};

use super::clock::{monotonic_ns, wall_ns};

/// True where this program knows how to ask for stamps.
pub(super) const SUPPORTED: bool = cfg!(target_os = "linux");

/// How often the map is renewed.
const RENEW: Span = Span::from_ms(500);
/// Pairs of readings taken for one renewal; the tightest counts.
const PAIRS: usize = 5;

/// The distance between wall and monotonic clock.
#[derive(Debug)]
pub(super) struct WallClock {
    /// wall − monotonic.
    offset_ns: i64,
    renew_at: Timestamp,
}

impl WallClock {
    pub(super) fn new() -> Self {
        Self { offset_ns: measure_offset_ns(), renew_at: Timestamp::ZERO }
    }

    /// Renews the map where it is time; returns when it will be again.
    #[inline]
    pub(super) fn renew(&mut self, now: Timestamp) -> Timestamp {
        if now >= self.renew_at {
            self.offset_ns = measure_offset_ns();
            self.renew_at = now.saturating_add(RENEW);
        }
        self.renew_at
    }

    /// The run's clock was set anew.
    pub(super) fn restart(&mut self) {
        self.renew_at = Timestamp::ZERO;
    }

    #[inline]
    pub(super) fn to_monotonic_ns(&self, wall_ns: u64) -> u64 {
        wall_ns.checked_add_signed(-self.offset_ns).unwrap_or(0)
    }
}

/// Reads the wall clock between two readings of the monotonic one; the pair with the least distance
/// between the two was disturbed least.
fn measure_offset_ns() -> i64 {
    let pair = |_| {
        let before = monotonic_ns();
        let wall = wall_ns();
        let after = monotonic_ns();
        (after - before, wall.wrapping_sub(before + (after - before) / 2) as i64)
    };
    (0..PAIRS).map(pair).min().map_or(0, |(_, offset)| offset)
}

/// Turns on software receive stamps; false where the socket has none.
#[cfg(target_os = "linux")]
pub(super) fn ask_for_stamps(socket: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd;
    let flags: libc::c_uint = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    // SAFETY: the descriptor is open, and the option's value is a live integer of the size told.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of_val(&flags) as libc::socklen_t,
        )
    };
    done == 0
}

#[cfg(not(target_os = "linux"))]
pub(super) fn ask_for_stamps(_: &OwnedFd) -> bool {
    false
}

/// Room for the one control message of `SO_TIMESTAMPING`, laid out as the kernel writes it: a header and
/// three stamps.
#[cfg(target_os = "linux")]
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    /// Software, deprecated, hardware.
    stamps: [libc::timespec; 3],
}

/// Reads, and returns the bytes and the wall-clock stamp of the last of them.
#[cfg(target_os = "linux")]
#[inline]
pub(super) fn receive_stamped(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    use std::os::fd::AsRawFd;
    let mut control = std::mem::MaybeUninit::<Control>::uninit();
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero bytes are a valid msghdr: null pointers and lengths of zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the descriptor is open; the message points to buffers that outlive the call, with
    // their true lengths.
    let bytes = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    if bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    let stamp = if message.msg_controllen as usize >= size_of::<Control>() {
        // SAFETY: the kernel says that it wrote as many bytes as a Control has, and any bytes are one.
        let Control { header, stamps } = unsafe { control.assume_init() };
        let is_stamp = header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_TIMESTAMPING;
        let software = stamps[0];
        (is_stamp && software.tv_sec != 0)
            .then(|| software.tv_sec as u64 * 1_000_000_000 + software.tv_nsec as u64)
    } else {
        None
    };
    Ok((bytes as usize, stamp))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn receive_stamped(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let (bytes, _) = rustix::net::recv(socket, buffer, rustix::net::RecvFlags::empty())?;
    Ok((bytes, None))
}
