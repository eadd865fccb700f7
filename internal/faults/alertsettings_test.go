//go:build e2e

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"gatehouse.example/storage/redis/redistest"
)

// withBadSettings has a mistake in its file, and is told to reload it.
func (w *watch) withBadSettings() fault {
	file := filepath.Join(w.t.TempDir(), "gatehouse.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			w.t.Error(err)
		}
	}
	write("code-ttl: 50s\n")
	_, _, instance := w.server("embedded:", "--config", file)
	return fault{instance: instance, alerts: []string{"GatehouseReloadFails"}, cause: func(ctx context.Context) {
		write("code-tll: 50s\n")
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+instance+"/reload", nil)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_ = resp.Body.Close()
		}
	}}
}

// withForeignLines has an audit trail into which somebody else writes.
func (w *watch) withForeignLines() fault {
	file := filepath.Join(w.t.TempDir(), "audit.jsonl")
	_, _, instance := w.server("embedded:", "--audit", file)
	return fault{instance: instance, alerts: []string{"GatehouseAuditUnguarded"}, cause: func(ctx context.Context) {
		again(ctx, func() {
			other, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = other.WriteString("{}\n")
				err = errors.Join(err, other.Close())
			}
			if err != nil {
				w.t.Error(err)
			}
		})
	}}
}

// withFullDisk has its audit trail on a disk of its own, which somebody fills.
func (w *watch) withFullDisk() fault {
	dir, instance, address := w.t.TempDir(), w.target(), redistest.FreeAddress(w.t)
	process := w.run("unshare", []string{"AUTHZ_EGRESS_CHECK=off"}, "--user", "--map-root-user", "--mount", "/bin/sh", "-c", `mount -t tmpfs -o size=64k none "$0" && exec "$@"`, dir,
		authzBinary, "serve", "--dev", "--audit", dir+"/audit.jsonl", "--listen", address, "--admin-listen", instance)
	return fault{instance: instance, alerts: []string{"GatehouseAuditFails"}, cause: func(ctx context.Context) {
		full := os.WriteFile(fmt.Sprintf("/proc/%d/root%s/fill", process.Pid, dir), make([]byte, 64<<10), 0o600)
		if !errors.Is(full, syscall.ENOSPC) {
			w.t.Errorf("the disk takes more than it has: %v", full)
		}
		again(ctx, func() { // each is a line, until 20 in a minute have the same code
			for _, form := range []string{"grant_type=none", "grant_type=refresh_token&client_id=none&refresh_token=none"} {
				r := newRequest(http.MethodPost, "http://"+address+"/token", form)
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				if resp, err := http.DefaultClient.Do(r); err == nil {
					_ = resp.Body.Close()
				}
			}
		})
	}}
}
