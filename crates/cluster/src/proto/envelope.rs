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

/// The kind of event in a frame of a watch (`metav1.WatchEvent`), and the object in its envelope.
pub fn event_in(frame: &[u8]) -> Result<(&[u8], &[u8]), WireError> {
    let object = bytes_of(bytes_of(frame, 2)?, 1)?;
    Ok((bytes_of(frame, 1)?, object_in(object)?))
}
