var<workgroup> shared_v138: array<f32, 64>;
@group(0) @binding(6) var<storage, read_write> v25: array<f32>;
@group(0) @binding(5) var<storage, read_write> v21: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read_write> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 8> }
@group(0) @binding(7) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_backward_f32_relu(@builtin(local_invocation_index) v325: u32, @builtin(workgroup_id) v327: vec3<u32>, @builtin(num_workgroups) v329: vec3<u32>) {
let v349 = &v25;
let v350 = &v21;
let v351 = &v17;
let v352 = &v13;
let v353 = &v9;
let v354 = &v5;
let v355 = &v1;
let v3 = u32(0);
let v29 = info_var.scalars_usize[0];
let v30 = info_var.scalars_usize[1];
let v31 = info_var.scalars_usize[2];
let v32 = info_var.scalars_usize[3];
let v328 = v327[2];
let v280 = u32(v328);
let v330 = v329[1];
let v282 = u32(v330);
let v283 = v280 * v282;
let v331 = v329[0];
let v285 = u32(v331);
let v286 = v283 * v285;
let v332 = v327[1];
let v288 = u32(v332);
let v291 = v288 * v285;
let v292 = v286 + v291;
let v334 = v327[0];
let v294 = u32(v334);
let v295 = v292 + v294;
let v347 = u32(64);
let v298 = v295 * v347;
let v336 = v325;
let v300 = u32(v336);
let v301 = v298 + v300;
let v35 = v301 / v347;
let v38 = v301 % v347;
let v39 = u32(1);
let v40 = v30 - v39;
let v41 = min(v35, v40);
let v45 = &(*v353)[v41];
let v46 = *v45;
let v47 = u32(v46);
let v48 = v35 * v32;
let v51 = f32(0.0);
let v52 = vec4<f32>(v51);
var<function> v258_store: vec4<f32>;
let v258 = &v258_store;
*v258 = v52;
let v57 = &(*v352)[v29];
let v58 = *v57;
let v59 = u32(v58);
let v60 = v35 < v59;
if v60 {
let v64 = &(*v351)[v47];
let v65 = *v64;
let v66 = vec4<f32>(v65);
for(var v68: u32 = v38; v68 < v32; v68 += v347) {
let v71 = v48 + v68;
let v75 = &(*v354)[v71];
let v76 = *v75;
let v78 = v66 * v76;
let v82 = &(*v355)[v71];
let v83 = *v82;
let v86 = f32(1.0);
let v87 = vec4<f32>(v86);
let v88 = v83 < v52;
let v89 = select(v83, v52, v88);
let v96 = v52 < v83;
let v97 = select(v52, v87, v96);
let v98 = v78 * v97;
let v102 = &(*v350)[v71];
*v102 = v98;
let v103 = v66 * v89;
*v75 = v103;
let v110 = *v258;
let v111 = fma(v76, v89, v110);
*v258 = v111;

}

} else {
let v112 = v35 < v31;
if v112 {
for(var v114: u32 = v38; v114 < v32; v114 += v347) {
let v119 = v48 + v114;
let v123 = &(*v354)[v119];
*v123 = v52;
let v133 = &(*v350)[v119];
*v133 = v52;

}

}

}
let v134 = *v258;
var<function> v278_store: f32;
let v278 = &v278_store;
*v278 = v51;
let v264 = v134[0];
let v265 = *v278;
let v266 = v265 + v264;
*v278 = v266;
let v267 = v134[1];
let v268 = *v278;
let v269 = v268 + v267;
*v278 = v269;
let v270 = v134[2];
let v271 = *v278;
let v272 = v271 + v270;
*v278 = v272;
let v273 = v134[3];
let v274 = *v278;
let v275 = v274 + v273;
*v278 = v275;
let v276 = *v278;
let v277 = &shared_v138;
let v145 = &(*v277)[v300];
*v145 = v276;
workgroupBarrier();
let v146 = u32(32);
let v147 = v300 < v146;
if v147 {
let v149 = v300 + v146;
let v153 = &(*v277)[v149];
let v154 = *v153;
let v159 = *v145;
let v160 = v159 + v154;
*v145 = v160;

}
workgroupBarrier();
let v161 = u32(16);
let v162 = v300 < v161;
if v162 {
let v164 = v300 + v161;
let v168 = &(*v277)[v164];
let v169 = *v168;
let v174 = *v145;
let v175 = v174 + v169;
*v145 = v175;

}
workgroupBarrier();
let v176 = u32(8);
let v177 = v300 < v176;
if v177 {
let v179 = v300 + v176;
let v183 = &(*v277)[v179];
let v184 = *v183;
let v189 = *v145;
let v190 = v189 + v184;
*v145 = v190;

}
workgroupBarrier();
let v191 = u32(4);
let v192 = v300 < v191;
if v192 {
let v194 = v300 + v191;
let v198 = &(*v277)[v194];
let v199 = *v198;
let v204 = *v145;
let v205 = v204 + v199;
*v145 = v205;

}
workgroupBarrier();
let v206 = u32(2);
let v207 = v300 < v206;
if v207 {
let v209 = v300 + v206;
let v213 = &(*v277)[v209];
let v214 = *v213;
let v219 = *v145;
let v220 = v219 + v214;
*v145 = v220;

}
workgroupBarrier();
let v222 = v300 < v39;
if v222 {
let v224 = v300 + v39;
let v228 = &(*v277)[v224];
let v229 = *v228;
let v234 = *v145;
let v235 = v234 + v229;
*v145 = v235;

}
workgroupBarrier();
let v240 = &(*v277)[v3];
let v241 = *v240;
let v243 = v38 == v3;
let v244 = v35 < v30;
let v245 = v243 && v244;
if v245 {
let v249 = &(*v349)[v47];
*v249 = v241;

}
return;

}
