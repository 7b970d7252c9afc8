//! Group A: values, keys, batches.

use super::rig::{Cluster, config, in_process, payload};
use ziggurat_base::{Code, Result};
use ziggurat_store::{Force, PutOptions, PutOutcome, PutRequest, Recency, Store};

/// Runs a check in process and over sockets: the same code must give the same verdict.
async fn everywhere(check: impl AsyncFn(&Store) -> Result<()>) -> Result<()> {
    check(&in_process(config(200), 64, 1)).await?;
    let cluster = Cluster::start(config(200), 64, 1).await;
    check(&cluster.connect().await).await
}

#[tokio::test]
async fn an_empty_value_round_trips_on_every_path() -> Result<()> {
    everywhere(async |store| {
        assert_eq!(
            store.put("empty", b"").await?,
            PutOutcome::Stored { replicas: 1 }
        );
        assert_eq!(
            store
                .put_parts("no-parts", &[], &PutOptions::default())
                .await?,
            PutOutcome::Stored { replicas: 1 }
        );
        let (five, seven) = (payload(5, 1), payload(7, 2));
        let parts: [&[&[u8]]; 3] = [&[&five], &[b""], &[&seven]];
        let requests: Vec<_> = [&b"b5"[..], b"b0", b"b7"]
            .iter()
            .zip(parts)
            .map(|(k, p)| PutRequest::new(k, p))
            .collect();
        assert!(
            store
                .put_many(&requests, &PutOptions::default())
                .await
                .iter()
                .all(Result::is_ok)
        );
        for key in ["empty", "no-parts", "b0"] {
            assert_eq!(store.get(key).await?, Some(Vec::new()), "{key}");
            assert_eq!(store.get_into(key, &mut []).await?, Some(0), "{key}");
            assert_eq!(store.get_range(key, 0, 0).await?, Some(Vec::new()), "{key}");
            assert_eq!(store.size(key).await?, Some(0), "{key}");
            assert!(store.exist(key).await?, "{key}");
        }
        let got = store.get_many(&[b"b5", b"b0", b"b7", b"b9"]).await;
        let got: Vec<_> = got.into_iter().collect::<Result<_>>()?;
        assert_eq!(
            got,
            [
                Some(five.clone()),
                Some(Vec::new()),
                Some(seven.clone()),
                None
            ]
        );
        store.remove_matching("", Force::Yes).await?;
        assert_eq!(store.stats().await?.objects, 0);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_value_larger_than_any_segment_evicts_nothing() -> Result<()> {
    let store = in_process(config(50), 16, 2);
    for i in 0..16 {
        store.put(format!("k{i}"), payload(1 << 20, i)).await?;
    }
    tokio::time::sleep(std::time::Duration::from_millis(80)).await;
    for mib in [17, 20, 33] {
        let began = std::time::Instant::now();
        let refused = store.put("huge", vec![0; mib << 20]).await.unwrap_err();
        assert_eq!(refused.code(), Code::NoAvailableHandle, "{refused}");
        assert!(
            refused.what().contains("more than any segment"),
            "{refused}"
        );
        assert!(began.elapsed().as_millis() < 200);
    }
    assert_eq!(store.stats().await?.evicted, 0);
    for i in 0..16 {
        assert_eq!(store.get(format!("k{i}")).await?, Some(payload(1 << 20, i)));
    }
    Ok(())
}

#[tokio::test]
async fn sizes_around_sixteen_mib_are_exact() -> Result<()> {
    everywhere(async |store| {
        for len in [(1 << 24) - 1, 1 << 24, (1 << 24) + 1] {
            let value = payload(len, len as u64);
            store.put("big", &value).await?;
            let mut buffer = vec![0xa5; len + 9];
            assert_eq!(store.get_into("big", &mut buffer).await?, Some(len as u64));
            assert!(buffer[..len] == value[..] && buffer[len..] == [0xa5; 9]);
            store.remove("big", Force::Yes).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn duplicate_keys_in_a_batch_get_are_all_filled() -> Result<()> {
    everywhere(async |store| {
        let (a, b) = (payload(70_000, 1), payload(300, 2));
        store.put("a", &a).await?;
        store.put("b", &b).await?;
        let got: Vec<_> = store
            .get_many(&[b"a", b"a", b"b", b"a"])
            .await
            .into_iter()
            .collect::<Result<_>>()?;
        assert_eq!(
            got,
            [
                Some(a.clone()),
                Some(a.clone()),
                Some(b.clone()),
                Some(a.clone())
            ]
        );
        let mut rooms = vec![vec![0xa5; 70_001]; 4];
        let mut buffers: Vec<&mut [u8]> = rooms.iter_mut().map(Vec::as_mut_slice).collect();
        let lens = store
            .get_many_into(&[b"a", b"a", b"b", b"a"], &mut buffers, Recency::Touch)
            .await;
        let lens: Vec<_> = lens.into_iter().collect::<Result<_>>()?;
        assert_eq!(lens, [Some(70_000), Some(70_000), Some(300), Some(70_000)]);
        for (room, value) in rooms.iter().zip([&a, &a, &b, &a]) {
            assert_eq!(&room[..value.len()], &value[..]);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn duplicate_keys_in_a_batch_put_leave_one_whole_value() -> Result<()> {
    let store = in_process(config(1), 64, 1);
    let (ones, twos) = (vec![0x11; 200_000], vec![0x22; 200_000]);
    for round in 0..1000 {
        let key = format!("k{}", round % 7);
        let parts: [[&[u8]; 1]; 2] = [[&ones], [&twos]];
        let requests = [
            PutRequest::new(key.as_bytes(), &parts[0]),
            PutRequest::new(key.as_bytes(), &parts[1]),
        ];
        let answers = store.put_many(&requests, &PutOptions::default()).await;
        assert_eq!(
            answers[0].as_ref().ok(),
            Some(&PutOutcome::Stored { replicas: 1 })
        );
        assert_eq!(
            answers[1].as_ref().unwrap_err().code(),
            Code::ObjectAlreadyExists
        );
        let got = store.get(&key).await?.expect("it was stored");
        assert!(got == ones || got == twos, "one of them, whole");
        let stats = store.stats().await?;
        assert_eq!((stats.objects, stats.writes_open), (1, 0), "charged once");
        store.remove(&key, Force::Yes).await?;
    }
    Ok(())
}

#[tokio::test]
async fn awkward_keys_are_distinct_or_refused() -> Result<()> {
    let long = "k".repeat(4096);
    let good: Vec<&[u8]> = vec![
        b"a/b",
        b"a_b",
        b"a%2Fb",
        b"../x",
        b"/abs",
        b".",
        b"a\nb",
        "\u{e9}".as_bytes(),
        "e\u{301}".as_bytes(),
        b"A",
        b"a",
        "😀".as_bytes(),
        &long.as_bytes()[..255],
        &long.as_bytes()[..256],
        long.as_bytes(),
        b"nul\0inside",
        b"\xff\xfe",
    ];
    everywhere(async |store| {
        for (salt, key) in good.iter().enumerate() {
            store.put(key, payload(100, salt as u64)).await?;
        }
        for (salt, key) in good.iter().enumerate() {
            assert_eq!(
                store.get(key).await?,
                Some(payload(100, salt as u64)),
                "{:?}",
                key.escape_ascii().to_string()
            );
        }
        for bad in [&b""[..], &[b'k'; 4097], &[b'k'; 70_000]] {
            assert_eq!(
                store.put(bad, b"x").await.unwrap_err().code(),
                Code::InvalidKey
            );
            assert_eq!(store.get(bad).await.unwrap_err().code(), Code::InvalidKey);
            assert_eq!(store.exist(bad).await.unwrap_err().code(), Code::InvalidKey);
            assert_eq!(
                store.remove(bad, Force::Yes).await.unwrap_err().code(),
                Code::InvalidKey
            );
        }
        assert_eq!(store.stats().await?.objects, good.len() as u64);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn malformed_batches_are_refused_without_effect() -> Result<()> {
    everywhere(async |store| {
        store.put("a", b"1").await?;
        let (mut one, mut two) = ([0; 4], [0; 4]);
        let answers = store
            .get_many_into(
                &[b"a", b"b", b"c"],
                &mut [&mut one, &mut two],
                Recency::Touch,
            )
            .await;
        assert_eq!(answers.len(), 3);
        assert!(
            answers
                .iter()
                .all(|a| a.as_ref().unwrap_err().code() == Code::InvalidParams)
        );
        let small = store.get_into("a", &mut []).await.unwrap_err();
        assert_eq!(small.code(), Code::BufferOverflow);
        assert_eq!(
            store.get_range("a", 1, u64::MAX).await.unwrap_err().code(),
            Code::InvalidRead
        );
        assert!(store.get_many(&[]).await.is_empty() && store.exist_many(&[]).await.is_empty());
        assert!(store.put_many(&[], &PutOptions::default()).await.is_empty());
        let none = store
            .put_parts("n", &[b"x"], &PutOptions::replicas(0))
            .await
            .unwrap_err();
        assert_eq!(none.code(), Code::InvalidParams);
        let keys: Vec<_> = (0..20_000).map(|i| format!("many-{i}")).collect();
        let keys: Vec<_> = keys.iter().map(String::as_bytes).collect();
        let found = store.exist_many(&keys).await;
        assert!(
            found.len() == 20_000 && found.iter().all(|f| f.as_ref().is_ok_and(|found| !found))
        );
        assert_eq!(
            store.get("a").await?,
            Some(b"1".to_vec()),
            "and the next call works"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn patterns_are_refused_or_count_what_they_did() -> Result<()> {
    everywhere(async |store| {
        let heavy = "a".repeat(4096);
        store.put(&heavy, b"x").await?;
        for i in 0..300 {
            store.put(format!("key{i}"), b"x").await?;
        }
        for bad in ["(", "[", "(?=a)b", r"(a)\1"] {
            assert_eq!(
                store
                    .remove_matching(bad, Force::No)
                    .await
                    .unwrap_err()
                    .code(),
                Code::InvalidParams,
                "{bad}"
            );
        }
        assert_eq!(
            store.list("(a+)+$", 10).await?.len(),
            1,
            "linear time, whatever the pattern"
        );
        store.exist_many(&[b"key1", b"key2"]).await;
        let kept = store.remove_matching("^(key1|key2)$", Force::No).await?;
        assert_eq!(
            (kept.removed, kept.leased),
            (0, 2),
            "a lease is named as the reason"
        );
        let forced = store.remove_matching("^(key1|key2)$", Force::Yes).await?;
        assert_eq!((forced.removed, forced.leased), (2, 0));
        assert_eq!(store.remove_matching("^key", Force::No).await?.removed, 298);
        Ok(())
    })
    .await
}

#[test]
fn ten_thousand_gets_in_process_block_nowhere() -> Result<()> {
    let store = in_process(config(1000), 64, 1).blocking();
    let value = payload(4096, 5);
    for i in 0..100 {
        store.put(format!("k{i}"), &value)?;
    }
    let mut buffer = vec![0; 4096];
    let before = voluntary_switches();
    for i in 0..10_000 {
        assert_eq!(
            store.get_into(format!("k{}", i % 100), &mut buffer)?,
            Some(4096)
        );
    }
    assert_eq!(voluntary_switches() - before, 0);
    assert_eq!(buffer, value);
    Ok(())
}

/// How often this thread gave its processor away by itself.
fn voluntary_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux tells");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
        .expect("Linux tells")
}
