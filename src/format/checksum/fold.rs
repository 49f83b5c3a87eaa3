//! CRC-32 by carry-less multiplication: a block of bytes is multiplied by what moves it over the next one, added to that, and
//! so on until one block is left, which is then reduced to 32 bits.
//!
//! Bits are reflected, as in the CRC: the lowest bit of the first byte has the highest power of x. Moving 128 bits over a
//! distance of `d` bits takes the factors `x^(d + 32)` for the first 64 and `x^(d - 32)` for the second. In each case the
//! result is the same number modulo P, in fewer bits.
//!
//! The position goes in as a block before the first one, of which all but its last eight bytes are zero.

use super::super::record::HEADER_LEN;
use core::arch::x86_64::{
    __m128i, __m512i, _mm_add_epi8, _mm_and_si128, _mm_blendv_epi8, _mm_clmulepi64_si128,
    _mm_cvtsi64_si128, _mm_extract_epi32, _mm_loadu_si128, _mm_set_epi64x, _mm_set1_epi8,
    _mm_shuffle_epi8, _mm_srli_si128, _mm_sub_epi8, _mm_xor_si128, _mm512_castsi512_si128,
    _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32, _mm512_loadu_si512, _mm512_set_epi64,
    _mm512_setzero_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
};

/// The polynomial without its highest term, highest power first.
const P: u32 = 0x04c1_1db7;

/// The factor x^n modulo P, reflected. One bit further left, as the product of two reflected numbers is one bit short.
const fn power(n: u32) -> i64 {
    let mut value: u32 = 1;
    let mut at = 0;
    while at < n {
        value = (value << 1) ^ (P * (value >> 31));
        at += 1;
    }
    (value.reverse_bits() as i64) << 1
}

/// The factors that move 128 bits over `d` bits.
const fn over(d: u32) -> (i64, i64) {
    (power(d + 32), power(d - 32))
}

/// P and x^64 / P, 33 bits each, reflected: the quotient is had by multiplying.
const P_REFLECTED: i64 = ((P.reverse_bits() as i64) << 1) | 1;
const QUOTIENT: i64 = {
    let (mut rest, mut quotient): (u64, u64) = (1 << 32, 0);
    let mut at = 0;
    while at <= 32 {
        let bit = (rest >> 32) & 1;
        quotient = (quotient << 1) | bit;
        rest = (rest ^ (bit * ((1 << 32) | P as u64))) << 1;
        at += 1;
    }
    (quotient.reverse_bits() >> 31) as i64
};

const OVER_1: (i64, i64) = over(128);
const OVER_2: (i64, i64) = over(256);
const OVER_3: (i64, i64) = over(384);
const OVER_4: (i64, i64) = over(512);
const OVER_8: (i64, i64) = over(1024);
const OVER_12: (i64, i64) = over(1536);
const OVER_16: (i64, i64) = over(2048);

/// Bytes that are folded at once.
const WIDE: usize = 64;

/// Checksum of a record's header; `None` if this processor cannot.
#[inline]
pub(super) fn header(position: u64, bytes: &[u8; HEADER_LEN]) -> Option<u32> {
    // SAFETY: the processor has what the function is compiled for.
    narrow_is_there().then(|| unsafe { fold_header(position, bytes) })
}

/// Checksum of a body; `None` if this processor cannot, or if it is shorter than one block.
#[inline]
pub(super) fn body(position: u64, bytes: &[u8]) -> Option<u32> {
    if bytes.len() >= WIDE && wide_is_there() {
        // SAFETY: the processor has what the function is compiled for.
        return Some(unsafe { fold_wide(position, bytes) });
    }
    if bytes.len() >= 16 && narrow_is_there() {
        // SAFETY: the processor has what the function is compiled for.
        return Some(unsafe { fold_narrow(position, bytes) });
    }
    None
}

#[inline]
fn narrow_is_there() -> bool {
    is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("sse4.1")
}

#[inline]
fn wide_is_there() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("sse4.1")
}

#[target_feature(enable = "pclmulqdq,sse4.1")]
fn fold_header(position: u64, bytes: &[u8; HEADER_LEN]) -> u32 {
    let (blocks, _) = bytes.as_chunks::<16>();
    // The position ends where the header's checksum does: its last four bytes stand in that one's place.
    let [first, second] = [load(&blocks[0]), load(&blocks[1])];
    let first = _mm_and_si128(first, _mm_set_epi64x(-1, !0xffff_ffff));
    let place = _mm_set_epi64x(0, (position >> 32).cast_signed());
    let before = _mm_cvtsi64_si128((!position << 32).cast_signed());
    let before = _mm_clmulepi64_si128(before, pair(OVER_1), 0x10);
    let first = _mm_xor_si128(_mm_xor_si128(first, place), before);
    reduce(fold(first, second, pair(OVER_1)))
}

#[target_feature(enable = "pclmulqdq,sse4.1")]
fn fold_narrow(position: u64, bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<16>();
    let first = _mm_xor_si128(load(&blocks[0]), seed(position));
    reduce(fold_rest(fold_blocks(first, &blocks[1..]), rest.len(), bytes))
}

#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.1")]
fn fold_wide(position: u64, bytes: &[u8]) -> u32 {
    let (groups, rest) = bytes.as_chunks::<{ 4 * WIDE }>();
    let (parts, rest) = rest.as_chunks::<WIDE>();
    let seed = _mm512_zextsi128_si512(seed(position));
    let (mut part, parts) = match (groups.split_first(), parts.split_first()) {
        (Some((first, groups)), _) => (fold_groups(seed, first, groups), parts),
        (None, Some((first, parts))) => (_mm512_xor_si512(load_wide(first), seed), parts),
        (None, None) => return fold_narrow(position, bytes),
    };
    for next in parts {
        part = fold_each(part, load_wide(next), pairs([OVER_4; 4]));
    }
    // The last of the four blocks stays where it is.
    let moved = fold_each(part, _mm512_setzero_si512(), pairs([OVER_3, OVER_2, OVER_1, (0, 0)]));
    let left = _mm_xor_si128(_mm512_castsi512_si128(moved), _mm512_extracti32x4_epi32(moved, 1));
    let last = _mm512_extracti32x4_epi32(part, 3);
    let right = _mm_xor_si128(_mm512_extracti32x4_epi32(moved, 2), last);
    let (blocks, rest) = rest.as_chunks::<16>();
    reduce(fold_rest(fold_blocks(_mm_xor_si128(left, right), blocks), rest.len(), bytes))
}

/// Folds groups of four parts each, which do not wait for each other, into one part.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold_groups(seed: __m512i, first: &[u8; 4 * WIDE], groups: &[[u8; 4 * WIDE]]) -> __m512i {
    let [mut a, mut b, mut c, mut d] = load_group(first);
    a = _mm512_xor_si512(a, seed);
    let far = pairs([OVER_16; 4]);
    for group in groups {
        let next = load_group(group);
        a = fold_each(a, next[0], far);
        b = fold_each(b, next[1], far);
        c = fold_each(c, next[2], far);
        d = fold_each(d, next[3], far);
    }
    let left = fold_each(a, d, pairs([OVER_12; 4]));
    let right = fold_each(b, _mm512_setzero_si512(), pairs([OVER_8; 4]));
    fold_each(c, _mm512_xor_si512(left, right), pairs([OVER_4; 4]))
}

/// The position's share of the first block.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn seed(position: u64) -> __m128i {
    // The CRC begins with all bits of its first 32 inverted.
    let before = _mm_cvtsi64_si128((position ^ 0xffff_ffff).cast_signed());
    _mm_clmulepi64_si128(before, pair(OVER_1), 0x10)
}

#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn fold_blocks(mut folded: __m128i, blocks: &[[u8; 16]]) -> __m128i {
    for block in blocks {
        folded = fold(folded, load(block), pair(OVER_1));
    }
    folded
}

/// Takes the last `count` of `bytes`, fewer than a block of them.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn fold_rest(folded: __m128i, count: usize, bytes: &[u8]) -> __m128i {
    let (Some(last), 1..16) = (bytes.last_chunk::<16>(), count) else { return folded };
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "below 16")]
    let count = _mm_set1_epi8(count as i8);
    let index = _mm_set_epi64x(0x0f0e_0d0c_0b0a_0908, 0x0706_0504_0302_0100);
    // Negative, which shuffles in a zero, where a byte is not one of the last `count` of its block.
    let up = _mm_add_epi8(_mm_sub_epi8(index, _mm_set1_epi8(16)), count);
    let down = _mm_add_epi8(_mm_add_epi8(index, _mm_set1_epi8(0x70)), count);
    let before = _mm_shuffle_epi8(folded, up);
    let block = _mm_blendv_epi8(load(last), _mm_shuffle_epi8(folded, down), up);
    fold(before, block, pair(OVER_1))
}

/// The checksum of what was folded into one block.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn reduce(block: __m128i) -> u32 {
    let low = _mm_set_epi64x(0, 0xffff_ffff);
    // Four bytes are added that the CRC has behind its message: 160 bits, then 96, then 64.
    let value = _mm_clmulepi64_si128(block, _mm_set_epi64x(0, power(96)), 0x00);
    let value = _mm_xor_si128(value, _mm_srli_si128(block, 8));
    let head = _mm_and_si128(value, low);
    let head = _mm_clmulepi64_si128(head, _mm_set_epi64x(0, power(64)), 0x00);
    let value = _mm_xor_si128(head, _mm_srli_si128(value, 4));
    // How often P goes into the rest, by multiplying (Barrett), and what it leaves.
    let barrett = _mm_set_epi64x(P_REFLECTED, QUOTIENT);
    let times = _mm_clmulepi64_si128(_mm_and_si128(value, low), barrett, 0x00);
    let whole = _mm_clmulepi64_si128(_mm_and_si128(times, low), barrett, 0x10);
    #[allow(clippy::cast_sign_loss, reason = "bits")]
    let crc = _mm_extract_epi32(_mm_xor_si128(value, whole), 1) as u32;
    !crc
}

#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn fold(block: __m128i, next: __m128i, factors: __m128i) -> __m128i {
    let first = _mm_clmulepi64_si128(block, factors, 0x00);
    let second = _mm_clmulepi64_si128(block, factors, 0x11);
    _mm_xor_si128(_mm_xor_si128(first, second), next)
}

/// Folds four blocks at once, each onto its own.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold_each(blocks: __m512i, next: __m512i, factors: __m512i) -> __m512i {
    let first = _mm512_clmulepi64_epi128(blocks, factors, 0x00);
    let second = _mm512_clmulepi64_epi128(blocks, factors, 0x11);
    // 0x96: the sum of three bits.
    _mm512_ternarylogic_epi64(first, second, next, 0x96)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn pair((first, second): (i64, i64)) -> __m128i {
    _mm_set_epi64x(second, first)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn pairs([a, b, c, d]: [(i64, i64); 4]) -> __m512i {
    _mm512_set_epi64(d.1, d.0, c.1, c.0, b.1, b.0, a.1, a.0)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn load(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: 16 bytes are there, and the load asks for no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_wide(bytes: &[u8; WIDE]) -> __m512i {
    // SAFETY: 64 bytes are there, and the load asks for no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_group(bytes: &[u8; 4 * WIDE]) -> [__m512i; 4] {
    let (parts, _) = bytes.as_chunks::<WIDE>();
    [load_wide(&parts[0]), load_wide(&parts[1]), load_wide(&parts[2]), load_wide(&parts[3])]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processors with the wide fold use the narrow one for short bodies only, so it is tried here.
    #[test]
    fn narrow_and_wide_fold_give_the_plain_crc_at_every_length() {
        let bytes: Vec<u8> = (0..1200_u32).map(|at| (at * 167 + 13).to_le_bytes()[0]).collect();
        for len in 16..bytes.len() {
            let (bytes, position) = (&bytes[..len], 0x0fed_cba9_8765_4321 ^ (len as u64) << 29);
            let plain = crc32fast::hash(&[&position.to_le_bytes(), bytes].concat());
            if narrow_is_there() {
                // SAFETY: the processor has what the function is compiled for.
                assert_eq!(unsafe { fold_narrow(position, bytes) }, plain, "narrow, {len}");
            }
            if wide_is_there() {
                // SAFETY: the processor has what the function is compiled for.
                assert_eq!(unsafe { fold_wide(position, bytes) }, plain, "wide, {len}");
            }
        }
    }
}
