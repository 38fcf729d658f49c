/// An in-tree volume plugin whose volumes have been migrated to a CSI driver. After `csi-translation-lib`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InTreePlugin {
    Ebs,
    GcePd,
    AzureDisk,
    AzureFile,
    Cinder,
    Vsphere,
    Portworx,
}

impl InTreePlugin {
    pub const ALL: [Self; 7] =
        [Self::Ebs, Self::GcePd, Self::AzureDisk, Self::AzureFile, Self::Cinder, Self::Vsphere, Self::Portworx];

    /// The name as a provisioner and in annotations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ebs => "kubernetes.io/aws-ebs",
            Self::GcePd => "kubernetes.io/gce-pd",
            Self::AzureDisk => "kubernetes.io/azure-disk",
            Self::AzureFile => "kubernetes.io/azure-file",
            Self::Cinder => "kubernetes.io/cinder",
            Self::Vsphere => "kubernetes.io/vsphere-volume",
            Self::Portworx => "kubernetes.io/portworx-volume",
        }
    }

    /// The CSI driver, where upstream's scheduler counts its volumes: it has no switch for Azure files and vSphere disks.
    pub const fn driver(self) -> Option<&'static str> {
        match self {
            Self::Ebs => Some("ebs.csi.aws.com"),
            Self::GcePd => Some("pd.csi.storage.gke.io"),
            Self::AzureDisk => Some("disk.csi.azure.com"),
            Self::Cinder => Some("cinder.csi.openstack.org"),
            Self::Portworx => Some("pxd.portworx.com"),
            Self::AzureFile | Self::Vsphere => None,
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.name() == name)
    }
}
