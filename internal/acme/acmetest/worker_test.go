package acmetest

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gatehouse.example/internal/acme"
	"gatehouse.example/internal/listener"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// shortLease is the lease of locks in tests that wait for its end.
const shortLease = 3 * time.Second

// workerVariable makes the program of the tests a server that another test may kill: the URL of its
// store, the directory of the authority, and the file with its roots.
const workerVariable = "GATEHOUSE_ACME_WORKER"

// work is a process of its own: a manager over a store and the listener that presents its certificates.
// It ends when it is killed.
func work(settings string) error {
	parts := strings.Fields(settings)
	backend, err := redis.Open(context.Background(), redis.Options{URL: parts[0]})
	if err != nil {
		return err
	}
	store, err := storage.New(backend, storage.Options{Issuer: "https://" + name, MasterKeys: [][]byte{make([]byte, 32)}, WriteTime: time.Minute})
	if err != nil {
		return err
	}
	text, err := os.ReadFile(parts[2])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	vault, log := acme.NewVault(store, parts[1]), slog.New(slog.NewTextHandler(os.Stderr, nil))
	vault.Lease = shortLease
	m, err := acme.New(acme.Config{Names: []string{name}, Directory: parts[1], Roots: roots, TLS: socket.Addr(), Log: log, Storage: vault, Check: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	fmt.Println(socket.Addr())
	go func() { _ = m.Run(context.Background(), log) }()
	return listener.New(http.NotFoundHandler(), listener.Config{TLS: m.Config(), Log: log}).Serve(socket)
}

// worker runs work in a process until it is killed. It returns the address that it listens on.
func (a *authority) worker(t *testing.T, store string) (addr string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), workerVariable+"="+strings.Join([]string{store, a.directory(), a.roots}, " "))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	scan := bufio.NewScanner(stdout)
	if !scan.Scan() {
		t.Fatal("the worker does not say where it listens")
	}
	return scan.Text(), kill
}
