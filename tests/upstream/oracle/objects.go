package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	// What the API server fills in where a manifest is silent.
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// watched are the kinds that upstream's scheduler has an informer for, by whether they live in a namespace.
var watched = map[runtime.Object]bool{
	&corev1.Pod{}: true, &corev1.Node{}: false, &corev1.Namespace{}: false, &corev1.Service{}: true,
	&corev1.ReplicationController{}: true, &appsv1.ReplicaSet{}: true, &appsv1.StatefulSet{}: true,
	&corev1.PersistentVolume{}: false, &corev1.PersistentVolumeClaim{}: true,
	&storagev1.StorageClass{}: false, &storagev1.CSINode{}: false, &storagev1.CSIDriver{}: false,
	&storagev1.CSIStorageCapacity{}: true, &storagev1.VolumeAttachment{}: false,
	&policyv1.PodDisruptionBudget{}: true,
	&resourcev1.ResourceClaim{}:     true, &resourcev1.ResourceSlice{}: false, &resourcev1.DeviceClass{}: false,
}

// namespaced says of each watched type whether it lives in a namespace.
var namespaced = func() map[reflect.Type]bool {
	types := make(map[reflect.Type]bool, len(watched))
	for example, inNamespace := range watched {
		types[reflect.TypeOf(example)] = inNamespace
	}
	return types
}()

var reader = kjson.NewSerializerWithOptions(
	kjson.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme, kjson.SerializerOptions{})

// objects are a cluster's objects, each defaulted as the API server would have done.
type objects struct {
	byType map[reflect.Type][]runtime.Object
	// seen are the names by type, and the UIDs of pods: upstream's cache mixes up what is given twice.
	seen map[any]bool
	// skipped counts those of kinds that the scheduler does not look at.
	skipped int
}

func readObjects(asked *request) (*objects, error) {
	read := &objects{byType: make(map[reflect.Type][]runtime.Object), seen: make(map[any]bool)}
	for i, raw := range asked.Objects {
		if err := read.add(raw, nil); err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
	}
	for _, path := range asked.Files {
		if err := read.addFile(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return read, nil
}

func (o *objects) addFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// Also reads JSON, which has no document separators.
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for number := 1; ; number++ {
		var raw json.RawMessage
		err := documents.Decode(&raw)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		if err := o.add(raw, nil); err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
	}
}

// add takes one object or list; kind is what an item of a typed list is, which need not say so itself.
func (o *objects) add(raw json.RawMessage, kind *schema.GroupVersionKind) error {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	// What does not decode even that far is left to the real decoder to complain of.
	if err := json.Unmarshal(raw, &list); err == nil && strings.HasSuffix(list.Kind, "List") && list.Items != nil {
		of := list.GroupVersionKind()
		of.Kind = strings.TrimSuffix(of.Kind, "List")
		item := &of
		if of.Kind == "" {
			item = nil
		}
		for i, raw := range list.Items {
			if err := o.add(raw, item); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	object, _, err := reader.Decode(raw, kind, nil)
	if runtime.IsNotRegisteredError(err) {
		o.skipped++
		return nil
	}
	if err != nil {
		return err
	}
	return o.keep(object)
}

func (o *objects) keep(object runtime.Object) error {
	kind := reflect.TypeOf(object)
	inNamespace, wanted := namespaced[kind]
	if !wanted {
		o.skipped++
		return nil
	}
	legacyscheme.Scheme.Default(object)
	about, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	if inNamespace && about.GetNamespace() == "" {
		about.SetNamespace(metav1.NamespaceDefault)
	}
	if pod, ok := object.(*corev1.Pod); ok {
		if finished(pod) {
			return nil
		}
		// Upstream's cache is keyed by it; no pod of a real cluster is without.
		if pod.UID == "" {
			pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
		}
		if o.seen[pod.UID] {
			return fmt.Errorf("pod %s/%s: its uid %s is given twice; give each pod one of its own", pod.Namespace, pod.Name, pod.UID)
		}
		o.seen[pod.UID] = true
	}
	name := named{kind, about.GetNamespace(), about.GetName()}
	if o.seen[name] {
		return fmt.Errorf("%s %s/%s is given twice; leave one out", kind.Elem().Name(), name.namespace, name.name)
	}
	o.seen[name] = true
	o.byType[kind] = append(o.byType[kind], object)
	return nil
}

// named is what tells an object from the others.
type named struct {
	kind            reflect.Type
	namespace, name string
}

// finished pods never reach the scheduler: its informer leaves them out with a field selector.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// pending are the pods without a node, sorted by namespace and name.
func (o *objects) pending() []*corev1.Pod {
	var found []*corev1.Pod
	for _, object := range o.byType[reflect.TypeFor[*corev1.Pod]()] {
		if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName == "" {
			found = append(found, pod)
		}
	}
	slices.SortStableFunc(found, func(a, b *corev1.Pod) int {
		if order := strings.Compare(a.Namespace, b.Namespace); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return found
}

// positions are the places of the pods in the order in which they were given.
func (o *objects) positions() map[types.UID]int {
	found := make(map[types.UID]int)
	for at, object := range o.byType[reflect.TypeFor[*corev1.Pod]()] {
		if pod, ok := object.(*corev1.Pod); ok {
			found[pod.UID] = at
		}
	}
	return found
}
