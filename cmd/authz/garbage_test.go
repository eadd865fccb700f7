package main

import (
	"testing"
	"testing/fstest"
)

// TestMemoryOfGroup: the least limit counts, of the group of the process and those around it.
func TestMemoryOfGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		group  string
		limits map[string]string
		want   int64
	}{
		"no control groups":          {"", nil, 0},
		"version 1":                  {"3:memory:/a\n", map[string]string{"a": "1000"}, 0},
		"no limit":                   {"0::/a\n", map[string]string{"a": "max"}, 0},
		"no file":                    {"0::/a/b\n", nil, 0},
		"its own":                    {"0::/a/b\n", map[string]string{"a/b": "1000\n", "a": "2000\n"}, 1000},
		"of the group around it":     {"0::/a/b\n", map[string]string{"a/b": "max\n", "a": "2000\n"}, 2000},
		"less around it":             {"1:cpu:/x\n0::/a/b\n", map[string]string{"a/b": "3000\n", "a": "2000\n"}, 2000},
		"a container":                {"0::/\n", map[string]string{".": "5000\n"}, 5000},
		"a container, seen from out": {"0::/../../x\n", map[string]string{".": "5000\n"}, 5000},
		"no number":                  {"0::/a\n", map[string]string{"a": "1e9\n"}, 0},
		"nothing":                    {"0::\n", map[string]string{".": "7\n"}, 7},
	} {
		root := fstest.MapFS{}
		if tt.group != "" {
			root["proc/self/cgroup"] = &fstest.MapFile{Data: []byte(tt.group)}
		}
		for group, limit := range tt.limits {
			at := "sys/fs/cgroup/" + group + "/memory.max"
			if group == "." {
				at = "sys/fs/cgroup/memory.max"
			}
			root[at] = &fstest.MapFile{Data: []byte(limit)}
		}
		if got := memoryOfGroup(root); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}
