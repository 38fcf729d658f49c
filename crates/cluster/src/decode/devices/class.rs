use super::{configuration, each};
use crate::decode::{DecodeError, Decoder, decode};
use crate::slim::SlimDeviceClass;
use berth_core::model::DeviceClass;
use berth_devices::model::DeviceClass as ClassSpec;
use std::sync::Arc;

impl Decoder {
    pub fn device_class(&mut self, slim: &SlimDeviceClass<'_>) -> Result<DeviceClass, DecodeError> {
        decode("deviceclass", slim, |parts| {
            let (name, spec) = (self.text(&slim.metadata.name), &parts.spec);
            let extended_resource = self.optional(&spec.extended_resource_name);
            let class = ClassSpec {
                name: name.clone(),
                selectors: self.device_selectors(&spec.selectors),
                config: each(&spec.config, "spec.config", configuration)?,
                unknown_fields: self.unknown_fields(&slim.unknown),
            };
            // Where it does not parse, the class counts as older than all others.
            let created_unix_us = slim.metadata.creation_timestamp.unix_us().unwrap_or(0);
            Ok(DeviceClass { name, extended_resource, created_unix_us, spec: Arc::new(class) })
        })
    }
}
