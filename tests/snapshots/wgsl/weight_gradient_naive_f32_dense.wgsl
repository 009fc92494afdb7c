@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn weight_gradient_naive_f32_dense(@builtin(workgroup_id) v73: vec3<u32>, @builtin(local_invocation_id) v76: vec3<u32>) {
let v81 = &v9;
let v82 = &v5;
let v83 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v16 = info_var.scalars_usize[3];
let v74 = v73[0];
let v75 = u32(64);
let v20 = v74 * v75;
let v77 = v76[0];
let v22 = v20 + v77;
let v23 = u32(v22);
let v78 = v73[1];
let v25 = u32(v78);
let v79 = v73[2];
let v27 = u32(v79);
let v29 = v23 < v14;
if v29 {
let v30 = f32(0.0);
var<function> v71_store: f32;
let v71 = &v71_store;
*v71 = v30;
let v34 = u32(1);
for(var v35: u32 = v3; v35 < v16; v35 += v34) {
let v38 = v16 - v34;
let v39 = min(v35, v38);
let v40 = v39 * v13;
let v41 = v40 + v25;
let v45 = &(*v83)[v41];
let v46 = *v45;
let v47 = v39 * v14;
let v48 = v47 + v23;
let v52 = &(*v82)[v48];
let v53 = *v52;
let v54 = *v71;
let v55 = fma(v46, v53, v54);
*v71 = v55;

}
let v58 = v27 * v13;
let v59 = v58 + v25;
let v60 = v59 * v14;
let v61 = v60 + v23;
let v65 = &(*v81)[v61];
let v66 = *v71;
*v65 = v66;

}
return;

}
