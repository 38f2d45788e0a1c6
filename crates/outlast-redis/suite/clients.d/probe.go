// go-redis: version 3 of the protocol, pipelines, transactions, messages.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
)

func must(err error) {
	if err != nil {
		fmt.Println("go-redis:", err)
		os.Exit(1)
	}
}

func expect(holds bool, what string) {
	if !holds {
		must(fmt.Errorf("%s", what))
	}
}

func main() {
	ctx := context.Background()
	db := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: 3})
	must(db.FlushAll(ctx).Err())
	must(db.Set(ctx, "key", "value", 0).Err())
	value, err := db.Get(ctx, "key").Result()
	must(err)
	expect(value == "value", "GET")
	for n := 0; n < 300; n++ {
		must(db.HSet(ctx, "hash", fmt.Sprint(n), n).Err())
	}
	all, err := db.HGetAll(ctx, "hash").Result()
	must(err)
	expect(len(all) == 300 && all["77"] == "77", "HGETALL")
	_, err = db.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "n")
		pipe.ZAdd(ctx, "zset", redis.Z{Score: 1.5, Member: "a"}, redis.Z{Score: 2, Member: "b"})
		return nil
	})
	must(err)
	scores, err := db.ZRangeWithScores(ctx, "zset", 0, -1).Result()
	must(err)
	expect(len(scores) == 2 && scores[0].Score == 1.5, "ZRANGE WITHSCORES")
	err = db.Watch(ctx, func(tx *redis.Tx) error {
		must(db.Set(ctx, "key", "other", 0).Err())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Incr(ctx, "n")
			return nil
		})
		return err
	}, "key")
	expect(err == redis.TxFailedErr, "WATCH")
	listener := db.Subscribe(ctx, "channel")
	_, err = listener.Receive(ctx)
	must(err)
	must(db.Publish(ctx, "channel", "hello").Err())
	message, err := listener.ReceiveMessage(ctx)
	must(err)
	expect(message.Payload == "hello", "PUBLISH")
	keys := 0
	for found := db.Scan(ctx, 0, "*", 10).Iterator(); found.Next(ctx); {
		keys++
	}
	expect(keys == 4, "SCAN")
	expect(db.Get(ctx, "none").Err() == redis.Nil, "a missing key")
	fmt.Println("go-redis:", redis.Version())
}
