package redis

import (
	"maps"
	"slices"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// TestSentinelsComeAndGo: the sentinels that are asked are those of the URL and those that
// answers list. One that was replaced is not asked any more.
func TestSentinelsComeAndGo(t *testing.T) {
	connect := func(addr string) *goredis.Client {
		return goredis.NewClient(&goredis.Options{Addr: addr, MaintNotificationsConfig: noMaintenance()})
	}
	s := newSentinels("main", []string{"a:1", "b:1"}, connect)
	defer s.close()
	for _, tt := range []struct{ there, want []string }{
		{[]string{"a:1", "b:1", "c:1"}, []string{"a:1", "b:1", "c:1"}},
		{[]string{"a:1", "b:1", "d:1", "e:1"}, []string{"a:1", "b:1", "d:1", "e:1"}},
		{[]string{"a:1", "b:1"}, []string{"a:1", "b:1"}},
	} {
		s.update(tt.there)
		if got := slices.Sorted(maps.Keys(s.known)); !slices.Equal(got, tt.want) {
			t.Errorf("%v are asked, want %v", got, tt.want)
		}
	}
	var crowd []string
	for i := range 2 * mostSentinels {
		crowd = append(crowd, string(rune('a'+i))+":2")
	}
	if s.update(crowd); len(s.known) > mostSentinels {
		t.Errorf("%d are asked", len(s.known))
	}
}

// TestReportOf: the replies to SENTINEL MASTER and similar commands are parsed.
func TestReportOf(t *testing.T) {
	primary := map[string]string{
		"ip": "192.0.2.1", "port": "6379", "flags": "master", "config-epoch": "7", "last-ping-sent": "120", "down-after-milliseconds": "5000",
		"quorum": "2", "num-other-sentinels": "2",
	}
	replicas := []map[string]string{
		{"ip": "192.0.2.2", "port": "6379", "flags": "slave,s_down,disconnected", "s-down-time": "1500", "slave-priority": "100", "role-reported": "slave"},
		{"ip": "192.0.2.3", "port": "6379", "flags": "slave", "slave-priority": "0", "role-reported": "slave"},
		{"ip": "192.0.2.4", "port": "6379", "flags": "slave", "slave-priority": "0", "role-reported": "master"},
	}
	others := []map[string]string{{"flags": "sentinel"}, {"flags": "sentinel,s_down"}}
	r := reportOf(primary, []string{"192.0.2.1", "6379"}, replicas, others)
	if r.Primary != "192.0.2.1:6379" || r.Epoch != 7 || r.Silence.Milliseconds() != 120 || r.DownAfter.Seconds() != 5 ||
		r.Quorum != 2 || r.Sentinels != 3 || r.Missing != 1 || r.Down || r.Failing {
		t.Errorf("about the primary: %+v", r)
	}
	if o := r.Others; len(o) != 3 || !o[0].Down || o[0].DownFor.Milliseconds() != 1500 || o[1].Down || !o[1].Barred || o[2].Barred {
		t.Errorf("about the others: %+v", r.Others)
	}
	primary["flags"] = "master,failover_in_progress,o_down"
	if r = reportOf(primary, []string{"192.0.2.1", "6379"}, nil, nil); !r.Failing || !r.Down {
		t.Errorf("in the middle of a failover: %+v", r)
	}
	if r = reportOf(primary, []string{"192.0.2.2", "6379"}, nil, nil); r.Failing || r.Primary != "192.0.2.2:6379" {
		t.Errorf("when another one was promoted: %+v", r)
	}
	if r = reportOf(map[string]string{"config-epoch": "-1", "quorum": "x"}, nil, nil, nil); r.Epoch != 0 || r.Quorum != 0 || r.Primary != "" {
		t.Errorf("nonsense: %+v", r)
	}
}
