// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages in the wire format of protocol buffers
//! (<https://protobuf.dev/programming-guides/encoding>), written only: Perfetto's traces and
//! pprof's profiles consist of them.

/// Types of fields on the wire.
const VARINT: u64 = 0;
const LENGTH: u64 = 2;

/// A message in the making.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Returns a message without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes all fields.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Returns whether the message has no fields.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    #[inline]
    fn tag(&mut self, field: u32, kind: u64) {
        self.varint((u64::from(field) << 3) | kind);
    }

    /// Adds a number.
    #[inline]
    pub fn uint(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    /// Adds a number that may be negative, of the types `int32` and `int64`.
    pub fn int(&mut self, field: u32, value: i64) {
        self.uint(field, value as u64);
    }

    /// Adds bytes.
    pub fn blob(&mut self, field: u32, value: &[u8]) {
        self.tag(field, LENGTH);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// Adds text.
    pub fn text(&mut self, field: u32, value: &str) {
        self.blob(field, value.as_bytes());
    }

    /// Adds a list of numbers.
    pub fn packed(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        self.message(field, |list| {
            values.into_iter().for_each(|value| list.varint(value));
        });
    }

    /// Adds a message, whose fields `fill` adds.
    #[inline]
    pub fn message<T>(&mut self, field: u32, fill: impl FnOnce(&mut Self) -> T) -> T {
        self.tag(field, LENGTH);
        // One byte is enough for most lengths.
        let place = self.bytes.len();
        self.bytes.push(0);
        let result = fill(self);
        let mut length = self.bytes.len() - place - 1;
        if length >= 0x80 {
            let mut more = [0; 9];
            let mut count = 0;
            self.bytes[place] = length as u8 | 0x80;
            length >>= 7;
            while length >= 0x80 {
                more[count] = length as u8 | 0x80;
                count += 1;
                length >>= 7;
            }
            more[count] = length as u8;
            let behind = place + 1;
            self.bytes
                .splice(behind..behind, more[..=count].iter().copied());
        } else {
            self.bytes[place] = length as u8;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the examples of the format's description.
    #[test]
    fn fields_are_as_the_description_has_them() {
        let mut message = Message::new();
        message.uint(1, 150);
        assert_eq!(message.bytes(), [0x08, 0x96, 0x01]);
        message.clear();
        message.text(2, "testing");
        assert_eq!(message.bytes(), b"\x12\x07testing");
        message.clear();
        message.int(1, -2);
        let minus_two = [
            0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ];
        assert_eq!(message.bytes(), minus_two);
        message.clear();
        message.packed(6, [3, 270, 86942]);
        assert_eq!(message.bytes(), [0x32, 6, 3, 0x8e, 2, 0x9e, 0xa7, 5]);
    }

    #[test]
    fn a_message_in_a_message_has_its_length_before_it_whatever_it_is() {
        for length in [
            0, 1, 124, 125, 126, 127, 128, 16_380, 16_381, 16_384, 3_000_000,
        ] {
            let text = "x".repeat(length);
            let mut inner = Message::new();
            inner.text(1, &text);
            let mut outer = Message::new();
            outer.blob(3, inner.bytes());
            let mut nested = Message::new();
            nested.message(3, |message| message.text(1, &text));
            assert!(nested == outer, "{length}");
        }
    }
}
