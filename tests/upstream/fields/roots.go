package main

import (
	"reflect"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	resource "k8s.io/api/resource/v1"
	storage "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Protobuf messages as the generated code of the API has them.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// Kinds that are watched: they are in the table, and pairs of them are made.
var kinds = []message{
	&core.Pod{},
	&core.Node{},
	&core.Namespace{},
	&core.Service{},
	&core.ReplicationController{},
	&core.PersistentVolume{},
	&core.PersistentVolumeClaim{},
	&apps.ReplicaSet{},
	&apps.StatefulSet{},
	&storage.StorageClass{},
	&storage.CSINode{},
	&storage.CSIDriver{},
	&storage.CSIStorageCapacity{},
	&storage.VolumeAttachment{},
	&policy.PodDisruptionBudget{},
	&resource.DeviceClass{},
	&resource.ResourceClaim{},
	&resource.ResourceSlice{},
}

// What else the table has: parts of an answer, and a kind that is only made from.
var others = []message{
	&resource.ResourceClaimTemplate{},
	&meta.ListMeta{},
	&meta.Status{},
}

// typeOf is the struct behind a root.
func typeOf(root message) reflect.Type {
	return reflect.TypeOf(root).Elem()
}
