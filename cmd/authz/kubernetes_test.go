package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/internal/listener"
)

const forKubernetes = "../../docs/examples/kubernetes"

// deployment is the part of the manifest that concerns these commands.
type deployment struct {
	Spec struct {
		Template struct {
			Spec struct {
				Grace        int64 `yaml:"terminationGracePeriodSeconds"`
				ServiceLinks *bool `yaml:"enableServiceLinks"`
				Containers   []podContainer
			}
		}
	}
}

type podContainer struct {
	Args []string
	Env  []struct{ Name, Value string }
}

// deployed returns the container of the server and its pod's time to end.
func deployed(t *testing.T) (c podContainer, grace time.Duration) {
	t.Helper()
	text, err := os.ReadFile(forKubernetes + "/base/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d deployment
	if err := yaml.Unmarshal(text, &d); err != nil || len(d.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%v: %+v", err, d)
	}
	pod := d.Spec.Template.Spec
	if pod.ServiceLinks == nil || *pod.ServiceLinks {
		t.Error("a service whose name begins with authz would make variables that look like settings")
	}
	return pod.Containers[0], time.Duration(pod.Grace) * time.Second
}

// The settings of the pods are accepted with both files, and the drain and the requests in flight end
// before the pod is killed. The warnings are those that hold behind an Ingress.
func TestKubernetesConfiguration(t *testing.T) {
	c, grace := deployed(t)
	dir := t.TempDir()
	write(t, dir, "master-keys", testKey(1)+"\n")
	write(t, dir, "store", "redis://redis:6379\n")
	environ := []string{"AUTHZ_TRUSTED_PROXIES=10.244.0.0/16"}
	var drain settings.Duration
	for _, v := range c.Env {
		if v.Name == "POD_IP" {
			continue
		}
		if !strings.HasPrefix(v.Name, settings.Prefix) {
			t.Errorf("%s is not a setting", v.Name)
		}
		if v.Name == "AUTHZ_DRAIN" {
			if err := drain.UnmarshalText([]byte(v.Value)); err != nil {
				t.Error(err)
			}
		}
		environ = append(environ, v.Name+"="+strings.NewReplacer("/run/secrets/gatehouse", dir, "$(POD_IP)", "10.244.1.5").Replace(v.Value))
	}
	if needed := time.Duration(drain) + listener.Grace; drain == 0 || grace < needed+5*time.Second {
		t.Errorf("a pod is killed after %s, and may take %s to stop", grace, needed)
	}
	for _, folder := range []string{"base", "example"} {
		if args := strings.Join(c.Args, " "); args != "serve --config /etc/gatehouse/gatehouse.yaml" {
			t.Errorf("it runs authz %s", args)
		}
		status, said := check(t, environ, "--config", forKubernetes+"/"+folder+"/gatehouse.yaml")
		if status != exitDone || strings.Count(said, "\n") != 2 || !strings.Contains(said, "only a proxy that ends TLS may reach it") ||
			!strings.Contains(said, "warning: store redis:6379: without TLS") {
			t.Errorf("%s: exit status %d:\n%s", folder, status, said)
		}
	}
}
