//! What each fault means, for people: what came, and which limit it broke.

/// A sentence about the fault `name`, or the name itself where it is none of this protocol's.
pub(crate) fn explain(name: &'static str) -> &'static str {
    match name {
        "not_http1" => "what came is not HTTP/1.x; a port for https:// answers so to http://",
        "unsupported_version" => "the answer is of an HTTP/1 version other than 1.0 and 1.1",
        "bad_status_line" => "the first line of the answer is no status line",
        "bad_field" => "a header of the answer is no name and value",
        "head_too_large" => "the head of the answer is longer than the limit of 262144 bytes",
        "too_many_headers" => "the answer has more headers than the limit of 1000",
        "too_many_interim_heads" => "more interim answers (1xx) came than the limit of 100",
        "unexpected_upgrade" => "the server switched protocols (101) without being asked to",
        "folded_framing_field" => "a header that tells the answer's length goes on over a second line",
        "bad_content_length" => "the Content-Length is no number, or there are several that differ",
        "bad_transfer_encoding" => "the Transfer-Encoding leaves it open where the answer ends",
        "bad_chunk_size" => "a chunk of the body begins with no size",
        "chunk_too_large" => "a chunk of the body says it is longer than 2^64 bytes",
        "chunk_line_too_long" => "the line before a chunk is longer than the limit of 4096 bytes",
        "bad_chunk_end" => "a chunk of the body is longer than it says",
        "bad_trailer" => "a trailer of the answer is no name and value",
        "trailers_too_large" => "the trailers of the answer are longer than the limit of 65536 bytes",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::explain;
    use crate::http1::{
        MAX_CHUNK_LINE_BYTES, MAX_FIELDS, MAX_HEAD_BYTES, MAX_INTERIM_HEADS, MAX_TRAILER_BYTES,
    };

    #[test]
    fn a_limit_that_was_broken_is_named() {
        for (name, limit) in [
            ("head_too_large", MAX_HEAD_BYTES as u64),
            ("too_many_headers", MAX_FIELDS as u64),
            ("too_many_interim_heads", MAX_INTERIM_HEADS.into()),
            ("chunk_line_too_long", MAX_CHUNK_LINE_BYTES.into()),
            ("trailers_too_large", MAX_TRAILER_BYTES.into()),
        ] {
            assert!(explain(name).contains(&format!("limit of {limit}")), "{name}");
        }
    }

    #[test]
    fn every_fault_of_the_manual_is_explained() {
        let manual = include_str!("../http1.rs").split("//! # Faults").nth(1).expect("a heading");
        let table = manual.lines().skip(1).take_while(|line| line.starts_with("//!"));
        let rows = table.filter(|line| line.starts_with("//! | `"));
        let mut seen = 0;
        for row in rows {
            let names = row.split('|').nth(1).expect("a first column");
            for name in names.split('`').skip(1).step_by(2) {
                seen += 1;
                assert!(explain(name).contains(' '), "{name}");
            }
        }
        assert_eq!(seen, 17);
    }
}
