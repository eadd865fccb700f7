package redis

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseURL(t *testing.T) {
	for _, test := range []struct {
		url  string
		want target
	}{
		{"embedded:", target{scheme: "embedded", embedded: true, addrs: []string{"embedded:0"}}},
		{"redis://localhost", target{scheme: "redis", addrs: []string{"localhost:6379"}}},
		{"redis://localhost/", target{scheme: "redis", addrs: []string{"localhost:6379"}}},
		{"redis://127.0.0.1:7000/3", target{scheme: "redis", addrs: []string{"127.0.0.1:7000"}, db: 3}},
		{"redis://[::1]:7000", target{scheme: "redis", addrs: []string{"[::1]:7000"}}},
		{"redis://[::1]/1", target{scheme: "redis", addrs: []string{"[::1]:6379"}, db: 1}},
		{"redis://:pw@h:1", target{scheme: "redis", addrs: []string{"h:1"}, password: "pw"}},
		{"redis://u:p%40%2F%3a%25@h:1/2", target{scheme: "redis", addrs: []string{"h:1"}, user: "u", password: "p@/:%", db: 2}},
		{"redis://u:a@b:c@h:1", target{scheme: "redis", addrs: []string{"h:1"}, user: "u", password: "a@b:c"}},
		{"rediss://u:p@redis.example.com:6380/0", target{
			scheme: "rediss", secure: true, addrs: []string{"redis.example.com:6380"}, user: "u", password: "p",
		}},
		{"redis+sentinel://h1:1,h2,[::1]:3/main?db=4", target{
			scheme: "redis+sentinel", addrs: []string{"h1:1", "h2:26379", "[::1]:3"}, master: "main", db: 4,
		}},
		{"redis+sentinel://h1/m?wait-for-missing=90s", target{
			scheme: "redis+sentinel", addrs: []string{"h1:26379"}, master: "m", patience: 90 * time.Second,
		}},
		{"redis+sentinel://u:p@h1/my-master.1", target{
			scheme: "redis+sentinel", addrs: []string{"h1:26379"}, user: "u", password: "p", master: "my-master.1",
		}},
		{"redis+sentinel://h1/m?sentinel-password=p%40%2F%3a%25%26%23%2B%20=:/?@", target{
			scheme: "redis+sentinel", addrs: []string{"h1:26379"}, master: "m", sentinelPassword: "p@/:%&#+ =:/?@",
		}},
		{"redis+sentinel://u:p@h1/m?sentinel-user=watch%65r&db=3&sentinel-password=q", target{
			scheme: "redis+sentinel", addrs: []string{"h1:26379"}, user: "u", password: "p", master: "m", db: 3,
			sentinelUser: "watcher", sentinelPassword: "q",
		}},
		{"rediss+sentinel://:p@h1:1,h2/m?db=1&sentinel-password=q", target{
			scheme: "rediss+sentinel", secure: true, addrs: []string{"h1:1", "h2:26379"}, password: "p", master: "m", db: 1, sentinelPassword: "q",
		}},
		{"rediss+sentinel://h1/m", target{scheme: "rediss+sentinel", secure: true, addrs: []string{"h1:26379"}, master: "m"}},
		{"rediss+cluster://u:p@h1:1,h2", target{
			scheme: "rediss+cluster", secure: true, cluster: true, addrs: []string{"h1:1", "h2:6379"}, user: "u", password: "p",
		}},
		{"redis+cluster://u:p@h1:1,h2/", target{
			scheme: "redis+cluster", cluster: true, addrs: []string{"h1:1", "h2:6379"}, user: "u", password: "p",
		}},
		{"redis+cluster://h1", target{scheme: "redis+cluster", cluster: true, addrs: []string{"h1:6379"}}},
	} {
		got, err := parseURL(test.url)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("parseURL(%q) = %+v, %v; want %+v", test.url, got, err, test.want)
		}
		if s := got.String(); strings.ContainsAny(s, "@?") {
			t.Errorf("%q shows user or password", s)
		}
	}
}

// refusedURLs are not store URLs. The word hunter2 is a password.
var refusedURLs = map[string][]string{
	"must be file:PATH, embedded:": {
		"", "embedded", "embedded://", "embedded:x", "hunter2", "localhost:6379", "REDIS://h", "redis:h", "redis:/h",
		"u:hunter2@redis://h", " redis://h",
	},
	"unknown scheme": {
		"http://h", "postgres://u:hunter2@h", "redisss://h", "redis+tls://h", "rediss+unix://h", "rediss+://h", "redis+sentinels://h/m", "redis+unix:///tmp/s", "unix:///tmp/s", "embedded://h",
	},
	"host:port": {
		"redis://", "redis:///0", "redis://:6379", "redis://h:", "redis://h:x", "redis://h:0", "redis://h:65536", "redis://h:-1",
		"redis://h:1:2", "redis://::1", "redis://[::1", "redis://[::1]x:1", "redis://[h]:x", "redis://h i:1", "redis://h\n:1", "redis://h,", "redis://,h",
		"redis://u:hunter2@", "redis://u:hun/ter2@h", "redis://u:hun?ter2@h", "redis://u:hun#ter2@h", "redis+cluster://h1,,h2",
		"redis+sentinel://h1,/m", "redis://u:p@h@",
	},
	"database number": {
		"redis://h/x", "redis://h/-1", "redis://h/1/2", "redis://h//1", "redis://h/65536", "redis://h/+1", "redis://h#0", "redis://h/0#x", "redis://hun/hunter2@h",
	},
	"takes one server":      {"redis://h1,h2", "rediss://h1:1,h2:2/0"},
	"must name the primary": {"redis+sentinel://h", "redis+sentinel://h/", "redis+sentinel://h/a/b", "redis+sentinel://h/a b", "redis+sentinel://h?db=0", "redis+sentinel://h/m#x", "rediss+sentinel://h?sentinel-password=hunter2"},
	"has one database":      {"rediss+cluster://h/0", "rediss+cluster://h?sentinel-password=hunter2", "redis+cluster://h/0", "redis+cluster://h/m", "redis+cluster://h?db=0", "redis+cluster://h/#hunter2"},
	"only parameters": {
		"redis://h?sentinel-password=hunter2", "rediss://h/0?db=1", "redis+sentinel://h/m?sentinel-password=hunter2&sentinel-password=hunter2",
		"redis+sentinel://h/m?sentinel-user=u&sentinel-password=x&sentinel-user=u", "redis+sentinel://h/m?Sentinel-Password=hunter2",
		"redis+sentinel://h/m?sentinel_password=hunter2", "redis+sentinel://h/m?password=hunter2", "redis+sentinel://h/m?sentinel-password=hun&ter2",
		"redis+sentinel://h/m?db=0&", "redis+sentinel://h/m?&db=0", "redis+sentinel://h/m?skip_verify=true",
		"redis://h?db=1", "redis://h/0?max_retries=3", "redis://h/0?hunter2@h", "redis+sentinel://h/m?db=x", "redis+sentinel://h/m?db=-1",
		"redis+sentinel://h/m?DB=1", "redis+sentinel://h/m?db=1&db=2", "redis+sentinel://h/m?hunter2", "redis+sentinel://h/m?x=1&db=2",
	},
	"sentinel-password, alone or with": {
		"redis+sentinel://h/m?sentinel-password", "redis+sentinel://h/m?sentinel-password=", "redis+sentinel://h/m?sentinel-user=hunter2",
		"redis+sentinel://h/m?sentinel-user=&sentinel-password=hunter2", "redis+sentinel://h/m?sentinel-password=hunter2%",
		"redis+sentinel://h/m?sentinel-password=%hunter2", "redis+sentinel://h/m?sentinel-password=hun+ter2",
		"redis+sentinel://h/m?sentinel-password=hun#ter2", "redis+sentinel://h/m?sentinel-password=hun ter2",
		"redis+sentinel://h/m?sentinel-user=a+b&sentinel-password=hunter2", "rediss+sentinel://h/m?db=1&sentinel-user=u",
	},
	"wait-for-missing must be": {
		"redis+sentinel://h/m?wait-for-missing=", "redis+sentinel://h/m?wait-for-missing=1", "redis+sentinel://h/m?wait-for-missing=hunter2",
		"redis+sentinel://h/m?wait-for-missing=999ms", "redis+sentinel://h/m?wait-for-missing=24h1s",
	},
	"percent-encoded": {"redis://u:hunter2%@h", "redis://%zz:hunter2@h", "redis://u:%hunter2@h", "redis://u@h", "redis://u:@h"},
}

func TestParseURLRefused(t *testing.T) {
	for want, urls := range refusedURLs {
		for _, url := range urls {
			got, err := parseURL(url)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("parseURL(%q) = %+v, %v; want an error with %q", url, got, err, want)
				continue
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "ter2") {
				t.Errorf("the error for %q shows the password: %v", url, err)
			}
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, urls := range refusedURLs {
		for _, url := range urls {
			f.Add(url)
		}
	}
	f.Add("redis+sentinel://u:p@h1:1,h2,[::1]:3/main?db=4")
	f.Add("rediss+sentinel://h1/main?sentinel-user=u&sentinel-password=%70&db=4")
	f.Add("rediss+cluster://u:p@h1:1,h2")
	f.Fuzz(func(t *testing.T, url string) {
		got, err := parseURL(url)
		if err != nil {
			if !reflect.DeepEqual(got, target{}) {
				t.Errorf("parseURL(%q) failed and returned %+v", url, got)
			}
			return
		}
		if len(got.addrs) == 0 || got.db < 0 || got.secure != strings.HasPrefix(url, "rediss") || (got.sentinelPassword == "" && got.sentinelUser != "") {
			t.Errorf("parseURL(%q) = %+v", url, got)
		}
		if again, err := parseURL(got.String()); err != nil || !reflect.DeepEqual(again.addrs, got.addrs) || again.master != got.master {
			t.Errorf("parseURL(%q).String() = %q, which parses as %+v, %v", url, got, again, err)
		}
	})
}
