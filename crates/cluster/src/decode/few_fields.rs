//! Kinds of which a field or two are read: what is read, and what becomes of it.

use super::{DecodeError, Decoder, decode};
use crate::slim::{Slim, Text, slim};
use berth_core::model::{DeviceClass, Namespace};
use serde::de::IgnoredAny;

pub type SlimNamespace<'a> = Slim<'a, IgnoredAny, IgnoredAny>;
pub type SlimDeviceClass<'a> = Slim<'a, DeviceClassSpec<'a>, IgnoredAny>;

slim! {
    struct DeviceClassSpec<'a> {
        extended_resource_name: Text<'a>,
    }
}

impl Decoder {
    pub fn namespace(&mut self, slim: &SlimNamespace<'_>) -> Result<Namespace, DecodeError> {
        decode("namespace", slim, |_| {
            Ok(Namespace { name: self.text(&slim.metadata.name), labels: self.labels(&slim.metadata.labels) })
        })
    }

    pub fn device_class(&mut self, slim: &SlimDeviceClass<'_>) -> Result<DeviceClass, DecodeError> {
        decode("deviceclass", slim, |parts| {
            let extended_resource = self.optional(&parts.spec.extended_resource_name);
            Ok(DeviceClass { name: self.text(&slim.metadata.name), extended_resource })
        })
    }
}
