package redis

import (
	"strings"

	"gatehouse.example/storage/redis/internal/sim"
)

// scripts defines the scripts of the backend in a world.
func scripts(w *sim.World) {
	w.Script(putScript, simulatedPut)
	w.Script(markScript, func(tx *sim.Tx, keys, args []string) any {
		mark, _ := tx.Get(keys[0])
		if mark != args[0] {
			return mark
		}
		tx.Set(keys[0], args[1])
		return args[1]
	})
	w.Script(beatScript, func(tx *sim.Tx, keys, _ []string) any {
		if mark, there := tx.Get(keys[0]); there {
			tx.Set(keys[0], mark)
		}
		return nil
	})
}

// simulatedPut is putScript.
func simulatedPut(tx *sim.Tx, keys, args []string) any {
	operation, condition, value, lineage := args[0], args[1], args[3], args[4]
	current, there := tx.Get(keys[0])
	version := ""
	if there {
		version = current[:min(versionLen, len(current))]
	}
	if there && version == operation {
		if args[5] == "1" {
			tx.Set(keys[0], current)
		}
		return int64(1)
	}
	if lineage != "" && !strings.Contains(tx.Info(), "master_replid:"+lineage) {
		return sim.Error("LINEAGE another one answers")
	}
	if condition == "absent" && there || condition != "absent" && condition != "always" && version != condition {
		if !there {
			return nil
		}
		return current
	}
	tx.Set(keys[0], value)
	return int64(1)
}
