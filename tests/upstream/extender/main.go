// Command extender is a scheduler extender built on upstream's own wire types, for tests and benchmarks: it answers by
// rules that a test sets, and keeps what it was asked.
//
//	POST /filter /prioritize /preempt /bind   the four verbs
//	PUT  /rules                               what it answers from now on (see rules.go)
//	GET  /requests                            the bodies it was sent so far, in order; DELETE forgets them
//	GET  /healthz
//
// It prints one line, "listening on ADDRESS", once it serves.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	certificate := flag.String("cert", "", "certificate to serve TLS with, PEM")
	key := flag.String("key", "", "its private key, PEM")
	clientCA := flag.String("client-ca", "", "authorities of client certificates; with it, one is required")
	kubeconfig := flag.String("kubeconfig", "", "how to bind pods; without it, the bind verb answers an error")
	quiet := flag.Bool("quiet", false, "keep no requests, for benchmarks")
	flag.Parse()
	if err := serve(*address, *certificate, *key, *clientCA, *kubeconfig, *quiet); err != nil {
		log.Fatal(err)
	}
}

func serve(address, certificate, key, clientCA, kubeconfig string, quiet bool) error {
	server, err := newServer(kubeconfig, quiet)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	http := &http.Server{Handler: server.handler()}
	if clientCA != "" {
		if http.TLSConfig, err = requireClients(clientCA); err != nil {
			return err
		}
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	if certificate != "" {
		return http.ServeTLS(listener, certificate, key)
	}
	return http.Serve(listener)
}

func requireClients(path string) (*tls.Config, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New(path + " holds no certificate")
	}
	return &tls.Config{ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}, nil
}
