//! What an API server wraps objects in: `k8s.io/apimachinery/pkg/runtime/serializer/protobuf`.

use super::wire::{WireError, bytes_of};

/// What a body, and an object in the frame of a watch, begins with.
pub const MAGIC: &[u8] = b"k8s\0";

/// The field of an envelope (`runtime.Unknown`) that has the object.
pub const OBJECT: u32 = 2;

/// The object in an envelope.
pub fn object_in(envelope: &[u8]) -> Result<&[u8], WireError> {
    // What has no magic number breaks off before its end.
    bytes_of(envelope.strip_prefix(MAGIC).ok_or(WireError::Cut)?, OBJECT)
}

/// The name, namespace, uid and resourceVersion in the metadata of an object, whatever the rest is like; empty where they are no texts.
pub fn names_in(object: &[u8]) -> [&str; 4] {
    let metadata = bytes_of(object, 1).unwrap_or_default();
    [1, 3, 5, 6]
        .map(|field| bytes_of(metadata, field).ok().and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default())
}

/// The kind of event in a frame of a watch (`metav1.WatchEvent`), and the object in its envelope.
pub fn event_in(frame: &[u8]) -> Result<(&[u8], &[u8]), WireError> {
    let object = bytes_of(bytes_of(frame, 2)?, 1)?;
    Ok((bytes_of(frame, 1)?, object_in(object)?))
}
