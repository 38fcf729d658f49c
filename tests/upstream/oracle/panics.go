package main

import (
	"context"
	"fmt"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// panics collects what went wrong in upstream's code for one request, on whichever goroutine. One malformed object
// must not end a batch of thousands, and that upstream panics on it is an answer too.
type panics struct {
	mutex sync.Mutex
	first string
}

type panicsKey struct{}

// contain keeps a panic on one of upstream's worker goroutines from ending the process. Call once, before any other.
func contain() {
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = []func(context.Context, any){func(ctx context.Context, cause any) {
		if collected, ok := ctx.Value(panicsKey{}).(*panics); ok {
			collected.add(cause)
		}
	}}
}

// within is ctx with p to collect what panics under it.
func (p *panics) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, panicsKey{}, p)
}

func (p *panics) add(cause any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.first == "" {
		p.first = fmt.Sprintf("panic: %v", cause)
	}
}

// take is the first panic since the last call; empty where there was none.
func (p *panics) take() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	taken := p.first
	p.first = ""
	return taken
}

// as turns a panic of the caller's own goroutine, or one collected from another, into its error. Defer it.
func (p *panics) as(err *error) {
	if cause := recover(); cause != nil {
		p.add(cause)
	}
	if text := p.take(); text != "" {
		*err = fmt.Errorf("%s", text)
	}
}
