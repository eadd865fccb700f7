// Package kubernetes renders the manifests of docs/examples/kubernetes as kubectl does, and decodes
// them with the types of Kubernetes.
package kubernetes

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const manifests = "../../../docs/examples/kubernetes/"

// podMonitor is the part of the operator's type that the manifest uses.
type podMonitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		JobLabel            string                        `json:"jobLabel"`
		Selector            meta.LabelSelector            `json:"selector"`
		PodMetricsEndpoints []struct{ Port, Path string } `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// types makes an object of each kind, by its version and kind.
var types = map[string]func() meta.Object{
	"v1/ConfigMap":                        func() meta.Object { return new(core.ConfigMap) },
	"v1/Service":                          func() meta.Object { return new(core.Service) },
	"v1/ServiceAccount":                   func() meta.Object { return new(core.ServiceAccount) },
	"apps/v1/Deployment":                  func() meta.Object { return new(apps.Deployment) },
	"apps/v1/StatefulSet":                 func() meta.Object { return new(apps.StatefulSet) },
	"networking.k8s.io/v1/Ingress":        func() meta.Object { return new(networking.Ingress) },
	"networking.k8s.io/v1/NetworkPolicy":  func() meta.Object { return new(networking.NetworkPolicy) },
	"policy/v1/PodDisruptionBudget":       func() meta.Object { return new(policy.PodDisruptionBudget) },
	"monitoring.coreos.com/v1/PodMonitor": func() meta.Object { return new(podMonitor) },
}

// decoded returns the object of a manifest. A field that its type does not have is an error, and so is
// one that is there twice.
func decoded(manifest []byte) (meta.Object, error) {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal(manifest, &kind); err != nil {
		return nil, err
	}
	make := types[kind.APIVersion+"/"+kind.Kind]
	if make == nil {
		return nil, fmt.Errorf("%s/%s is not known here", kind.APIVersion, kind.Kind)
	}
	object := make()
	return object, yaml.UnmarshalStrict(manifest, object)
}

// rendered returns the objects of a folder as kubectl would apply them.
func rendered(t *testing.T, folder string) []meta.Object {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), manifests+folder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := all.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	var objects []meta.Object
	for _, manifest := range bytes.Split(text, []byte("\n---\n")) {
		object, err := decoded(manifest)
		if err != nil {
			t.Fatalf("%s: %v\n%s", folder, err, manifest)
		}
		if faults := validation.IsDNS1123Subdomain(object.GetName()); len(faults) > 0 {
			t.Errorf("%s: the name %q: %v", folder, object.GetName(), faults)
		}
		objects = append(objects, object)
	}
	return objects
}

// of returns the objects of one type.
func of[T meta.Object](objects []meta.Object) []T {
	var found []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// pods returns the templates of the pods by the name of what makes them.
func pods(objects []meta.Object) map[string]core.PodTemplateSpec {
	found := map[string]core.PodTemplateSpec{}
	for _, d := range of[*apps.Deployment](objects) {
		found[d.Name] = d.Spec.Template
	}
	for _, s := range of[*apps.StatefulSet](objects) {
		found[s.Name] = s.Spec.Template
	}
	return found
}

// selected returns the pods that have labels.
func selected(t *testing.T, objects []meta.Object, selector *meta.LabelSelector) []core.PodTemplateSpec {
	t.Helper()
	matches, err := meta.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	var found []core.PodTemplateSpec
	for _, pod := range pods(objects) {
		if !matches.Empty() && matches.Matches(labels.Set(pod.Labels)) {
			found = append(found, pod)
		}
	}
	return found
}

// opens reports whether a pod has a port, by number or name.
func opens(pod core.PodTemplateSpec, port intstr.IntOrString) bool {
	return slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p core.ContainerPort) bool {
		return p.Name != "" && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal
	})
}

var folders = []string{"base", "redis", "podmonitor", "example"}

// Every manifest has the fields of its type and no others.
func TestManifestsAreStrict(t *testing.T) {
	for _, folder := range folders {
		if len(rendered(t, folder)) == 0 {
			t.Errorf("%s is empty", folder)
		}
	}
	for fault, manifest := range map[string]string{
		"an unknown field": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 1}\n",
		"a field twice":    "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {}\nspec: {}\n",
		"a wrong type":     "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: no}\n",
		"an unknown kind":  "apiVersion: v2\nkind: Service\nmetadata: {name: a}\n",
	} {
		if _, err := decoded([]byte(manifest)); err == nil {
			t.Errorf("%s is accepted", fault)
		}
	}
}

// Pods run as a user without rights who cannot change their files, know no account of Kubernetes, and
// have bounds for what they take.
func TestPodsAreConfined(t *testing.T) {
	for name, pod := range pods(rendered(t, "example")) {
		c, p := pod.Spec.Containers[0], pod.Spec.SecurityContext
		if p == nil || p.RunAsNonRoot == nil || !*p.RunAsNonRoot || p.SeccompProfile == nil || p.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: the pod has %+v", name, p)
		}
		s := c.SecurityContext
		if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
			s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
			t.Errorf("%s: the container has %+v", name, s)
		}
		if token := pod.Spec.AutomountServiceAccountToken; token == nil || *token {
			t.Errorf("%s gets a token of the cluster", name)
		}
		for _, resource := range []core.ResourceName{core.ResourceCPU, core.ResourceMemory} {
			if asked := c.Resources.Requests[resource]; asked.IsZero() {
				t.Errorf("%s asks for no %s", name, resource)
			}
		}
		if c.Resources.Limits.Memory().IsZero() || c.ReadinessProbe == nil {
			t.Errorf("%s has no bound of memory or no probe", name)
		}
	}
}

// The server has secrets in files that its group alone reads, probes on its admin port, and a map of
// settings that is there, under a name that changes with its content.
func TestServerPod(t *testing.T) {
	objects := rendered(t, "example")
	pod := pods(objects)["gatehouse"].Spec
	c := pod.Containers[0]
	for _, v := range c.Env {
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil || strings.Contains(v.Value, "redis://") {
			t.Errorf("%s shows a secret to whoever sees the variables of the process", v.Name)
		}
	}
	for probe, want := range map[*core.Probe]string{c.StartupProbe: "/livez", c.LivenessProbe: "/livez", c.ReadinessProbe: "/readyz"} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != want || probe.HTTPGet.Port.StrVal != "admin" || !opens(core.PodTemplateSpec{Spec: pod}, probe.HTTPGet.Port) {
			t.Errorf("%+v is not a probe of %s", probe, want)
		}
	}
	maps, secrets := of[*core.ConfigMap](objects), 0
	for _, volume := range pod.Volumes {
		switch {
		case volume.ConfigMap != nil:
			if len(maps) != 1 || volume.ConfigMap.Name != maps[0].Name || maps[0].Name == "gatehouse" || maps[0].Data["gatehouse.yaml"] == "" {
				t.Errorf("the pod wants the settings %s, there is %v", volume.ConfigMap.Name, maps)
			}
		case volume.Secret != nil:
			secrets++
			if mode := volume.Secret.DefaultMode; mode == nil || *mode != 0o440 || pod.SecurityContext.FSGroup == nil {
				t.Errorf("secrets have the mode %v", mode)
			}
		}
	}
	if secrets != 1 {
		t.Errorf("%d volumes of secrets", secrets)
	}
}

// Whoever empties a node gets pods out, one at a time, and while pods are replaced as many answer as
// before.
func TestDisruption(t *testing.T) {
	objects := rendered(t, "base")
	budgets, deployments := of[*policy.PodDisruptionBudget](objects), of[*apps.Deployment](objects)
	if len(budgets) != 1 || len(deployments) != 1 {
		t.Fatalf("%d budgets, %d deployments", len(budgets), len(deployments))
	}
	if b := budgets[0].Spec; b.MaxUnavailable == nil || b.MaxUnavailable.IntVal != 1 || len(selected(t, objects, b.Selector)) != 1 {
		t.Errorf("the budget is %+v", b)
	}
	d := deployments[0].Spec
	if d.Replicas == nil || *d.Replicas < 2 || len(selected(t, objects, d.Selector)) != 1 || d.Strategy.RollingUpdate.MaxUnavailable.IntVal != 0 {
		t.Errorf("the deployment is %+v", d)
	}
}

// From the host to the pod, every name and port leads to the next. The admin port is in no service.
func TestTheWayToThePods(t *testing.T) {
	objects := rendered(t, "example")
	services := map[string]*core.Service{}
	for _, s := range of[*core.Service](objects) {
		services[s.Name] = s
		found := selected(t, objects, &meta.LabelSelector{MatchLabels: s.Spec.Selector})
		for _, port := range s.Spec.Ports {
			if len(found) != 1 || !opens(found[0], port.TargetPort) || port.TargetPort.StrVal == "admin" {
				t.Errorf("the service %s leads to %d pods at %s", s.Name, len(found), port.TargetPort.String())
			}
		}
	}
	for _, ingress := range of[*networking.Ingress](objects) {
		to := ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service
		s := services[to.Name]
		if s == nil || !slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return p.Name == to.Port.Name }) {
			t.Errorf("the ingress leads to %+v", to)
		}
		if host := ingress.Spec.Rules[0].Host; !slices.Contains(ingress.Spec.TLS[0].Hosts, host) || !strings.Contains(of[*core.ConfigMap](objects)[0].Data["gatehouse.yaml"], "issuer: https://"+host+"\n") {
			t.Errorf("%s is not the host of certificate and issuer", host)
		}
	}
	for _, p := range of[*networking.NetworkPolicy](objects) {
		found := selected(t, objects, &p.Spec.PodSelector)
		if len(found) != 1 || len(p.Spec.PolicyTypes) != 2 {
			t.Fatalf("the policy %s is for %d pods, and %v", p.Name, len(found), p.Spec.PolicyTypes)
		}
		for _, rule := range p.Spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) == 0 || !opens(found[0], *rule.Ports[0].Port) {
				t.Errorf("the policy %s lets in %+v", p.Name, rule)
			}
		}
		for _, rule := range p.Spec.Egress {
			for _, to := range rule.To {
				if to.NamespaceSelector == nil && to.PodSelector != nil && len(selected(t, objects, to.PodSelector)) != 1 {
					t.Errorf("the policy %s leads to no pod: %+v", p.Name, to)
				}
			}
		}
	}
	for _, m := range of[*podMonitor](objects) {
		found := selected(t, objects, &m.Spec.Selector)
		if len(found) != 1 || found[0].Labels[m.Spec.JobLabel] != "gatehouse" || !opens(found[0], intstr.FromString(m.Spec.PodMetricsEndpoints[0].Port)) {
			t.Errorf("metrics are fetched from %d pods: %+v", len(found), m.Spec)
		}
	}
}

// An installation changes the number of pods, the image, the settings and variables without touching
// what it builds on.
func TestInstallationsVary(t *testing.T) {
	before, after := of[*apps.Deployment](rendered(t, "base"))[0], of[*apps.Deployment](rendered(t, "example"))[0]
	if *after.Spec.Replicas == *before.Spec.Replicas || after.Namespace == before.Namespace {
		t.Errorf("%d replicas in %q, before %d in %q", *after.Spec.Replicas, after.Namespace, *before.Spec.Replicas, before.Namespace)
	}
	was, is := before.Spec.Template.Spec, after.Spec.Template.Spec
	if was.Containers[0].Image == is.Containers[0].Image || len(is.Containers[0].Env) != len(was.Containers[0].Env)+1 {
		t.Errorf("the container is %+v", is.Containers[0])
	}
	if was.Volumes[0].ConfigMap.Name == is.Volumes[0].ConfigMap.Name {
		t.Error("other settings have the same name, so pods would not be replaced")
	}
}
