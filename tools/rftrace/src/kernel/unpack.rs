// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The kernel inside a `vmlinuz`.
//!
//! Documentation/arch/x86/boot.rst: `setup_sects` (u8 at 0x1f1), `"HdrS"` (at 0x202),
//! `payload_offset` (u32 at 0x248) and `payload_length` (u32 at 0x24c), both of what comes behind
//! the setup sectors.

use std::io::Read;

use super::Error;

/// Unpacks compressed data.
type Unpack = fn(&[u8]) -> std::io::Result<Vec<u8>>;

/// The ways of compression, by the first bytes of compressed data.
const MAGICS: [(&[u8], &str, Unpack); 4] = [
    (b"\x1f\x8b", "gzip", gzip),
    (b"\xfd7zXZ\0", "xz", xz),
    (b"\x28\xb5\x2f\xfd", "zstd", zstd),
    (b"\x02\x21\x4c\x18", "lz4", lz4),
];

/// Maximum size of a kernel that is unpacked, in bytes. x86-64 has 1 GiB for what is loaded
/// (`KERNEL_IMAGE_SIZE`, arch/x86/include/asm/page_64_types.h); headers and relocations are beside
/// it.
pub(super) const MOST_BYTES: u64 = 2 << 30;

/// Returns the ELF file inside `image`, or `None` if it is not a `vmlinuz`.
pub(super) fn vmlinuz(image: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    if image.get(0x202..0x206) != Some(b"HdrS") {
        return Ok(None);
    }
    let cut = || Error::Malformed("the vmlinuz is cut short".into());
    let word = |at: usize| {
        let bytes = image.get(at..at + 4).ok_or_else(cut)?;
        Ok::<_, Error>(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    };
    let sectors = match image[0x1f1] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let from = (sectors + 1) * 512 + word(0x248)?;
    let payload = image.get(from..from + word(0x24c)?).ok_or_else(cut)?;
    for (magic, name, unpack) in MAGICS {
        if payload.starts_with(magic) {
            return unpack(payload)
                .map(Some)
                .map_err(|error| Error::Malformed(format!("the vmlinuz's {name} data: {error}")));
        }
    }
    let known = MAGICS.map(|magic| magic.1).join(", ");
    Err(Error::Malformed(format!(
        "the vmlinuz is compressed in a way that is none of {known}"
    )))
}

fn gzip(payload: &[u8]) -> std::io::Result<Vec<u8>> {
    all_of(flate2::read::GzDecoder::new(payload))
}

fn xz(payload: &[u8]) -> std::io::Result<Vec<u8>> {
    all_of(lzma_rust2::XzReader::new(payload, false))
}

fn zstd(payload: &[u8]) -> std::io::Result<Vec<u8>> {
    all_of(ruzstd::decoding::StreamingDecoder::new(payload).map_err(std::io::Error::other)?)
}

fn lz4(payload: &[u8]) -> std::io::Result<Vec<u8>> {
    // The size of the whole is behind it.
    let frame = &payload[..payload.len().saturating_sub(4)];
    all_of(lz4_flex::frame::FrameDecoder::new(frame))
}

fn all_of(reader: impl Read) -> std::io::Result<Vec<u8>> {
    at_most(MOST_BYTES, reader)
}

/// Reads up to the end: a small file may be made to unpack to more than there is memory.
fn at_most(most: u64, reader: impl Read) -> std::io::Result<Vec<u8>> {
    let mut data = Vec::new();
    reader.take(most + 1).read_to_end(&mut data)?;
    if data.len() as u64 > most {
        let text = format!("more than {most} bytes, as no kernel has");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text));
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        assert_eq!(at_most(4, &b"four"[..]).unwrap(), b"four");
        let refused = at_most(4, &b"fives"[..]).unwrap_err();
        assert_eq!(refused.to_string(), "more than 4 bytes, as no kernel has");
        assert!(at_most(1 << 20, std::io::repeat(0)).is_err());
    }
}
