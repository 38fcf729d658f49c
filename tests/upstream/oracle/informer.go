package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// fixedInformer is an informer of objects that never change. It hands them to each handler in the call that adds it,
// so that a scheduler built on it is up to date when its constructor returns: no goroutine, nothing to wait for, and
// the same order of events each time.
type fixedInformer struct {
	indexer cache.Indexer
	objects []runtime.Object
}

var _ cache.SharedIndexInformer = &fixedInformer{}

func newFixedInformer(objects []runtime.Object) (*fixedInformer, error) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	})
	for _, object := range objects {
		if err := indexer.Add(object); err != nil {
			return nil, err
		}
	}
	return &fixedInformer{indexer: sortedIndexer{indexer}, objects: objects}, nil
}

// sortedIndexer lists by key. A plain indexer lists in the order of a map, and some plugins take the first of equals:
// VolumeBinding of volumes of one size. What then is luck on a real cluster has one answer here.
type sortedIndexer struct{ cache.Indexer }

func (s sortedIndexer) List() []any { return sorted(s.Indexer.List()) }

func (s sortedIndexer) Index(name string, object any) ([]any, error) {
	found, err := s.Indexer.Index(name, object)
	return sorted(found), err
}

func (s sortedIndexer) ByIndex(name, value string) ([]any, error) {
	found, err := s.Indexer.ByIndex(name, value)
	return sorted(found), err
}

func sorted(objects []any) []any {
	slices.SortFunc(objects, func(a, b any) int {
		// No object without metadata gets past newFixedInformer.
		first, _ := cache.MetaNamespaceKeyFunc(a)
		second, _ := cache.MetaNamespaceKeyFunc(b)
		return strings.Compare(first, second)
	})
	return objects
}

func (f *fixedInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, object := range f.objects {
		handler.OnAdd(object, true)
	}
	return synced{}, nil
}

func (f *fixedInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandler(handler)
}

func (f *fixedInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandler(handler)
}

func (f *fixedInformer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (f *fixedInformer) AddIndexers(indexers cache.Indexers) error {
	return f.indexer.AddIndexers(indexers)
}
func (f *fixedInformer) GetIndexer() cache.Indexer                          { return f.indexer }
func (f *fixedInformer) GetStore() cache.Store                              { return f.indexer }
func (f *fixedInformer) GetController() cache.Controller                    { return nil }
func (f *fixedInformer) Run(<-chan struct{})                                {}
func (f *fixedInformer) RunWithContext(context.Context)                     {}
func (f *fixedInformer) HasSynced() bool                                    { return true }
func (f *fixedInformer) HasSyncedChecker() cache.DoneChecker                { return synced{} }
func (f *fixedInformer) LastSyncResourceVersion() string                    { return "" }
func (f *fixedInformer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return nil }
func (f *fixedInformer) SetTransform(cache.TransformFunc) error             { return nil }
func (f *fixedInformer) IsStopped() bool                                    { return false }

func (f *fixedInformer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// synced is the registration of a handler that has had everything.
type synced struct{}

var done = func() chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}()

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "fixed" }
func (synced) Done() <-chan struct{}               { return done }
