//go:build e2e

package faults

import (
	"context"
	"net/http"
	"os"
	"path/filepath"

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

// withFullDisk writes its audit trail to a device that is full. It starts with the fault.
func (w *watch) withFullDisk() fault {
	instance := w.target()
	w.run("/bin/sh", []string{"AUTHZ_EGRESS_CHECK=off"}, "-c", `exec "$0" "$@" >/dev/full`,
		authzBinary, "serve", "--dev", "--audit", "-", "--listen", redistest.FreeAddress(w.t), "--admin-listen", instance)
	return fault{instance: instance, alerts: []string{"GatehouseAuditFails"}, early: true, cause: func(context.Context) {}}
}
