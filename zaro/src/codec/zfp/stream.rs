//! The bit stream under zfp: least significant bit first, in words of 64 bits, little-endian.
//!
//! A [`Reader`] never fails. Past the end of its bytes it yields zeros and goes on counting, and
//! [`Reader::overrun`] says afterwards whether it did: a sound stream holds every bit its blocks ask for.

/// Reads bits.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    data: &'a [u8],
    /// The next byte to be fetched.
    next: usize,
    /// Fetched bits, the next one lowest. Bits beyond `have` are either zero or what will be fetched again.
    buffer: u64,
    /// How many bits of `buffer` count; at most 63.
    have: u32,
}

impl<'a> Reader<'a> {
    /// Over `data`, from its first bit.
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, next: 0, buffer: 0, have: 0 }
    }

    /// Fetches bytes, so that at least 56 bits are at hand.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        let word = match self.data.get(self.next..).and_then(|d| d.first_chunk::<8>()) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => self.tail(),
        };
        self.buffer |= word << self.have;
        // At most 7 and at least 0 whole bytes fit above what is there.
        self.next = self.next.saturating_add(usize::from(u8::try_from((63 - self.have) >> 3).unwrap_or(0)));
        self.have |= 56;
    }

    /// The last bytes, with zeros behind them.
    #[cold]
    fn tail(&self) -> u64 {
        let mut bytes = [0; 8];
        let rest = self.data.get(self.next..).unwrap_or_default();
        for (to, from) in bytes.iter_mut().zip(rest) {
            *to = *from;
        }
        u64::from_le_bytes(bytes)
    }

    /// How many bits are at hand.
    #[inline(always)]
    pub(super) fn have(&self) -> u32 {
        self.have
    }

    /// How many zeros come next; what lies beyond [`have`](Self::have) is not to be relied on.
    #[inline(always)]
    pub(super) fn zeros(&self) -> u32 {
        self.buffer.trailing_zeros()
    }

    /// Whether the next bit is set; it must be at hand.
    #[inline(always)]
    pub(super) fn peek(&self) -> bool {
        self.buffer & 1 == 1
    }

    /// The next `n < 64` bits, which must be at hand and are left there.
    #[inline(always)]
    pub(super) fn next_bits(&self, n: u32) -> u64 {
        self.buffer & ((1 << n) - 1)
    }

    /// Drops `n` bits, which must be at hand.
    #[inline(always)]
    pub(super) fn consume(&mut self, n: u32) {
        self.buffer >>= n;
        self.have -= n;
    }

    /// The next `n <= 64` bits.
    #[inline(always)]
    pub(super) fn bits(&mut self, n: u32) -> u64 {
        if n > 56 {
            let low = self.few(32);
            return low | self.few(n - 32) << 32;
        }
        self.few(n)
    }

    /// The next `n <= 56` bits.
    #[inline(always)]
    fn few(&mut self, n: u32) -> u64 {
        self.refill();
        let value = self.next_bits(n);
        self.consume(n);
        value
    }

    /// Passes over `n` bits.
    pub(super) fn skip(&mut self, n: u32) {
        if n <= self.have {
            return self.consume(n);
        }
        let target = self.position().saturating_add(u64::from(n));
        self.next = usize::try_from(target / 8).unwrap_or(usize::MAX);
        self.buffer = 0;
        self.have = 0;
        self.refill();
        self.consume(u32::try_from(target % 8).unwrap_or(0));
    }

    /// How many bits have been read or passed over.
    fn position(&self) -> u64 {
        crate::num::u64_of(self.next).saturating_mul(8).saturating_sub(u64::from(self.have))
    }

    /// Whether more bits were asked for than there are.
    #[inline]
    pub(super) fn overrun(&self) -> bool {
        // The cheap test first: nearly always true.
        self.next > self.data.len() && self.position() > crate::num::u64_of(self.data.len()).saturating_mul(8)
    }
}

/// Writes bits.
#[derive(Debug, Default)]
pub(super) struct Writer {
    out: Vec<u8>,
    buffer: u64,
    /// How many bits of `buffer` are set; at most 63.
    used: u32,
}

impl Writer {
    /// With room for `bytes`.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { out: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Writes the low `n <= 64` bits of `value`, which has no others.
    #[inline(always)]
    pub(super) fn put(&mut self, value: u64, n: u32) {
        self.buffer |= value << self.used;
        let total = self.used + n;
        if total >= 64 {
            self.out.extend_from_slice(&self.buffer.to_le_bytes());
            self.buffer = value.checked_shr(64 - self.used).unwrap_or(0);
            self.used = total - 64;
        } else {
            self.used = total;
        }
    }

    /// Writes `n` zeros.
    pub(super) fn pad(&mut self, mut n: u32) {
        while n > 0 {
            let part = n.min(64);
            self.put(0, part);
            n -= part;
        }
    }

    /// The bytes, filled up to a whole word as zfp does.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.used > 0 {
            self.pad(64 - self.used);
        }
        self.out
    }
}
