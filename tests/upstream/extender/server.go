package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Request is one that was answered.
type Request struct {
	Verb  string          `json:"verb"`
	Agent string          `json:"agent"`
	Token string          `json:"token"`
	Body  json.RawMessage `json:"body"`
}

type server struct {
	cluster kubernetes.Interface
	quiet   bool

	mu       sync.Mutex
	rules    Rules
	requests []Request
}

func newServer(kubeconfig string, quiet bool) (*server, error) {
	s := &server{quiet: quiet}
	if kubeconfig == "" {
		return s, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, -1
	s.cluster, err = kubernetes.NewForConfig(config)
	return s, err
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", verb(s, "filter", s.filter))
	mux.HandleFunc("POST /prioritize", verb(s, "prioritize", s.prioritize))
	mux.HandleFunc("POST /preempt", verb(s, "preempt", s.preempt))
	mux.HandleFunc("POST /bind", verb(s, "bind", s.bind))
	mux.HandleFunc("PUT /rules", s.setRules)
	mux.HandleFunc("GET /requests", s.listRequests)
	mux.HandleFunc("DELETE /requests", s.forgetRequests)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	return mux
}

// verb reads the arguments of a verb, keeps them, and answers by the rules.
func verb[A, R any](s *server, name string, answer func(context.Context, *Rules, *A) R) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		var args A
		if err == nil {
			err = json.Unmarshal(body, &args)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		rules := s.keep(Request{
			Verb: name, Agent: request.UserAgent(), Token: request.Header.Get("Authorization"), Body: body,
		})
		if !rules.breaks(name) {
			reply(w, answer(request.Context(), &Rules{
				Refused: rules.Refused, Unresolvable: rules.Unresolvable, Dropped: rules.Dropped,
				Scores: rules.Scores, ScoreEvery: rules.ScoreEvery, Spared: rules.Spared,
			}, &args))
			return
		}
		var answered R
		done := rules.BindThenHang && name == "bind"
		if done {
			answered = answer(request.Context(), &rules, &args)
		}
		if !pause(request.Context(), time.Duration(rules.Delay)) {
			return
		}
		if rules.Reset {
			reset(w)
			return
		}
		if rules.Status != 0 {
			w.WriteHeader(rules.Status)
		}
		switch {
		case rules.Half:
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"NodeNames": ["node-`)
		case rules.Body != "":
			_, _ = io.WriteString(w, rules.Body)
		case done:
			reply(w, answered)
		default:
			reply(w, answer(request.Context(), &rules, &args))
		}
	}
}

// reset ends the connection as a process that dies does.
func reset(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	connection, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

// pause waits; false: the caller has gone.
func pause(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *server) keep(request Request) Rules {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.quiet {
		s.requests = append(s.requests, request)
	}
	return s.rules
}

func (s *server) setRules(w http.ResponseWriter, request *http.Request) {
	var rules Rules
	decoder := json.NewDecoder(request.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&rules); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.rules = rules
	s.mu.Unlock()
	reply(w, "ok")
}

func (s *server) listRequests(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	requests := slices.Clone(s.requests)
	s.mu.Unlock()
	if requests == nil {
		requests = []Request{}
	}
	reply(w, requests)
}

func (s *server) forgetRequests(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.requests = nil
	s.mu.Unlock()
	reply(w, "ok")
}

func (s *server) filter(_ context.Context, rules *Rules, args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	result := &extenderv1.ExtenderFilterResult{
		FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
		Error: rules.Error,
	}
	stays := func(name string) bool {
		if message, ok := rules.Refused[name]; ok {
			result.FailedNodes[name] = message
			return false
		}
		if message, ok := rules.Unresolvable[name]; ok {
			result.FailedAndUnresolvableNodes[name] = message
			return false
		}
		return !slices.Contains(rules.Dropped, name)
	}
	if args.NodeNames != nil {
		names := []string{}
		for _, name := range *args.NodeNames {
			if stays(name) {
				names = append(names, name)
			}
		}
		result.NodeNames = &names
	} else if args.Nodes != nil {
		nodes := v1.NodeList{Items: []v1.Node{}}
		for _, node := range args.Nodes.Items {
			if stays(node.Name) {
				nodes.Items = append(nodes.Items, node)
			}
		}
		result.Nodes = &nodes
	}
	return result
}

func (s *server) prioritize(_ context.Context, rules *Rules, args *extenderv1.ExtenderArgs) *extenderv1.HostPriorityList {
	scores := extenderv1.HostPriorityList{}
	add := func(name string) {
		if points, ok := rules.Scores[name]; ok {
			scores = append(scores, extenderv1.HostPriority{Host: name, Score: points})
		} else if rules.ScoreEvery {
			scores = append(scores, extenderv1.HostPriority{Host: name, Score: score(name)})
		}
	}
	if args.NodeNames != nil {
		for _, name := range *args.NodeNames {
			add(name)
		}
	} else if args.Nodes != nil {
		for _, node := range args.Nodes.Items {
			add(node.Name)
		}
	}
	return &scores
}

func (s *server) preempt(_ context.Context, rules *Rules, args *extenderv1.ExtenderPreemptionArgs) *extenderv1.ExtenderPreemptionResult {
	result := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	keep := func(node string, victims *extenderv1.MetaVictims) {
		spared := func(pod *extenderv1.MetaPod) bool { return slices.Contains(rules.Spared, pod.UID) }
		if !slices.ContainsFunc(victims.Pods, spared) && !slices.Contains(rules.Dropped, node) {
			result.NodeNameToMetaVictims[node] = victims
		}
	}
	for node, victims := range args.NodeNameToMetaVictims {
		keep(node, victims)
	}
	for node, victims := range args.NodeNameToVictims {
		meta := &extenderv1.MetaVictims{NumPDBViolations: victims.NumPDBViolations}
		for _, pod := range victims.Pods {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
		}
		keep(node, meta)
	}
	return result
}

func (s *server) bind(ctx context.Context, rules *Rules, args *extenderv1.ExtenderBindingArgs) *extenderv1.ExtenderBindingResult {
	if rules.Error != "" {
		return &extenderv1.ExtenderBindingResult{Error: rules.Error}
	}
	if s.cluster == nil {
		return &extenderv1.ExtenderBindingResult{Error: "no kubeconfig was given, so that no pod can be bound"}
	}
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName, UID: args.PodUID},
		Target:     v1.ObjectReference{Kind: "Node", Name: args.Node},
	}
	// The binding is to land even if the caller has gone.
	err := s.cluster.CoreV1().Pods(args.PodNamespace).Bind(context.WithoutCancel(ctx), binding, metav1.CreateOptions{})
	if err != nil {
		return &extenderv1.ExtenderBindingResult{Error: err.Error()}
	}
	return &extenderv1.ExtenderBindingResult{}
}
